//! Labelled sets in Parquet files, as data hubs hand them out.

use std::fs::File;
use std::path::Path;
use std::thread;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::rows::{Known, Row};
use crate::error::{Error, Result};

/// The thread on which files are read; a program may keep what it says of a panic to itself.
pub const THREAD: &str = "attnviz-parquet";

/// The items of a file, row by row, by the names of its columns. The crate takes much of a file for
/// granted and panics on some that are broken, so they are read on a thread that may end that way.
pub(super) fn read(path: &Path) -> Result<Vec<Known>> {
    let ended = thread::scope(|scope| {
        let named = thread::Builder::new().name(THREAD.into());
        named.spawn_scoped(scope, || read_rows(path)).map(|reading| reading.join())
    });
    match ended.map_err(Error::io(path, "read it"))? {
        Ok(rows) => rows,
        Err(_) => Err(Error::input(path.display().to_string(), "no Parquet file: it is broken")),
    }
}

fn read_rows(path: &Path) -> Result<Vec<Known>> {
    let file = File::open(path).map_err(Error::io(path, "open it"))?;
    let broken = |why: parquet::errors::ParquetError| {
        Error::input(path.display().to_string(), format!("no Parquet file: {why}"))
    };
    let length = file.metadata().map_err(Error::io(path, "read its size"))?.len();
    let reader = SerializedFileReader::new(file).map_err(broken)?;
    if let Some(why) = misplaced(&reader, length) {
        return Err(Error::input(path.display().to_string(), format!("no Parquet file: {why}")));
    }
    let mut rows = Vec::new();
    for found in reader.get_row_iter(None).map_err(broken)? {
        let place = format!("{}, row {}", path.display(), rows.len() + 1);
        let wrong = |why: String| Error::input(place.clone(), why);
        let mut row = Row::default();
        for (key, field) in found.map_err(broken)?.get_column_iter() {
            match field {
                Field::Null => {}
                Field::ListInternal(list) => {
                    let values = list.elements().iter().map(plain).collect();
                    row.set_list(key, values).map_err(wrong)?;
                }
                other => {
                    if let Some(text) = plain(other) {
                        row.set(key, text);
                    }
                }
            }
        }
        rows.push(row.checked(rows.len()).map_err(wrong)?);
    }
    Ok(rows)
}

/// What is wrong with the places of the columns, which the crate takes for granted: each must lie in
/// the file.
fn misplaced(reader: &SerializedFileReader<File>, length: u64) -> Option<String> {
    let columns = reader.metadata().row_groups().iter().flat_map(|group| group.columns());
    columns.into_iter().find_map(|column| {
        let first = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let size = column.compressed_size();
        let end = first.checked_add(size).filter(|_| first >= 0 && size >= 0);
        let inside = end.and_then(|end| u64::try_from(end).ok()).is_some_and(|end| end <= length);
        let found =
            || format!("column {} lies at {first}, {size} bytes long", column.column_path());
        (!inside || column.num_values() < 0).then(found)
    })
}

/// Text, or a number as text; nothing for what is neither.
fn plain(field: &Field) -> Option<String> {
    match field {
        Field::Str(text) => Some(text.clone()),
        Field::Bytes(bytes) => String::from_utf8(bytes.data().to_vec()).ok(),
        Field::Bool(_)
        | Field::Byte(_)
        | Field::Short(_)
        | Field::Int(_)
        | Field::Long(_)
        | Field::UByte(_)
        | Field::UShort(_)
        | Field::UInt(_)
        | Field::ULong(_)
        | Field::Float16(_)
        | Field::Float(_)
        | Field::Double(_) => Some(field.to_string()),
        _ => None,
    }
}
