//! Values of a pickle → tensors by name: where each lies in which storage.

use std::collections::HashMap;

use candle_core::pickle::Object;
use safetensors::Dtype;

/// Names under which people save a state dict together with other things.
const WRAPPERS: [&str; 4] = ["state_dict", "model_state_dict", "model", "module"];

/// One tensor: a view of a storage, counted in elements.
#[derive(Debug)]
pub(super) struct View {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
    pub offset: usize,
    /// Name of the storage.
    pub key: String,
}

/// A state dict.
#[derive(Debug, Default)]
pub(super) struct State {
    pub views: Vec<View>,
    /// Type of each storage that is mentioned anywhere in the file.
    pub storages: HashMap<String, Dtype>,
    pub notes: Vec<String>,
}

impl State {
    pub fn read(object: Object) -> Result<Self, String> {
        let mut state = Self::default();
        collect(&object, &mut state.storages)?;
        let Object::Dict(pairs) = object else {
            return Err(
                "expected a dictionary of tensors, found something else in its pickle".into()
            );
        };
        let (pairs, left) = unwrapped(pairs, &mut state.notes);
        let mut ignored = left;
        for (key, value) in pairs {
            let Object::Unicode(name) = key else {
                ignored.push("an entry without a name".into());
                continue;
            };
            match tensor(&name, &value)? {
                Some(view) => state.views.push(view),
                None if name == "_metadata" => {} // versions of modules, kept beside the tensors
                None => ignored.push(format!("`{name}`")),
            }
        }
        if state.views.is_empty() {
            return Err("there is no tensor in its dictionary".into());
        }
        ignored.sort();
        if !ignored.is_empty() {
            let (count, some) = (ignored.len(), ignored.iter().take(4).cloned());
            let some = some.collect::<Vec<_>>().join(", ");
            let more = if count > 4 { ", …" } else { "" };
            state.notes.push(format!("left aside, being no tensor of the model: {some}{more}"));
        }
        Ok(state)
    }
}

type Pairs = Vec<(Object, Object)>;

/// The state dict, out of what it may be wrapped in, and the names of what lies beside it.
fn unwrapped(pairs: Pairs, notes: &mut Vec<String>) -> (Pairs, Vec<String>) {
    let is_tensor = |value: &Object| matches!(value, Object::Reduce { .. });
    if pairs.iter().any(|(_, value)| is_tensor(value)) {
        return (pairs, Vec::new());
    }
    let found = WRAPPERS.iter().find(|&&name| {
        pairs.iter().any(|(key, value)| {
            let inner =
                matches!(value, Object::Dict(inner) if inner.iter().any(|(_, v)| is_tensor(v)));
            inner && matches!(key, Object::Unicode(key) if key == name)
        })
    });
    let Some(&wrapper) = found else { return (pairs, Vec::new()) };
    notes.push(format!("the tensors are those under its key `{wrapper}`"));
    let (mut inner, mut beside) = (Vec::new(), Vec::new());
    for (key, value) in pairs {
        match (key, value) {
            (Object::Unicode(key), Object::Dict(pairs)) if key == wrapper => inner = pairs,
            (Object::Unicode(key), _) => beside.push(format!("`{key}`")),
            _ => beside.push("an entry without a name".into()),
        }
    }
    (inner, beside)
}

/// A tensor as `torch.save` writes it; `None` for anything else.
fn tensor(name: &str, value: &Object) -> Result<Option<View>, String> {
    let Object::Reduce { callable, args } = value else { return Ok(None) };
    let (Object::Class { class_name, .. }, Object::Tuple(args)) = (&**callable, &**args) else {
        return Ok(None);
    };
    let odd = || format!("tensor `{name}` is not saved as torch saves tensors");
    match (class_name.as_str(), args.as_slice()) {
        ("_rebuild_tensor_v2" | "_rebuild_tensor", [storage, offset, shape, strides, ..]) => {
            let (key, dtype) = storage_of(storage)?.ok_or_else(odd)?;
            let view = || {
                Some(View {
                    name: name.into(),
                    dtype,
                    shape: counts(shape)?,
                    strides: counts(strides)?,
                    offset: count(offset)?,
                    key,
                })
            };
            let view = view().filter(|view| view.shape.len() == view.strides.len());
            view.ok_or_else(odd).map(Some)
        }
        ("_rebuild_parameter", [data, ..]) => tensor(name, data),
        ("_rebuild_from_type_v2", [callable, _, args, ..]) => {
            let (callable, args) = (Box::new(callable.clone()), Box::new(args.clone()));
            tensor(name, &Object::Reduce { callable, args })
        }
        ("_rebuild_tensor_v2" | "_rebuild_tensor" | "_rebuild_parameter", _) => Err(odd()),
        _ => Ok(None),
    }
}

fn count(object: &Object) -> Option<usize> {
    match *object {
        Object::Int(n) => usize::try_from(n).ok(),
        Object::Long(n) => usize::try_from(n).ok(),
        _ => None,
    }
}

fn counts(object: &Object) -> Option<Vec<usize>> {
    match object {
        Object::Tuple(items) => items.iter().map(count).collect(),
        _ => None,
    }
}

/// Name and type of a storage: `("storage", class, name, device, elements, view)`.
fn storage_of(object: &Object) -> Result<Option<(String, Dtype)>, String> {
    let Object::PersistentLoad(id) = object else { return Ok(None) };
    let Object::Tuple(parts) = &**id else { return Ok(None) };
    let [_, Object::Class { class_name, .. }, Object::Unicode(key), _, _, view @ ..] = &parts[..]
    else {
        return Ok(None);
    };
    if view.iter().any(|view| *view != Object::None) {
        return Err("storages that are views of others, as torch before 0.4 saved them".into());
    }
    Ok(Some((key.clone(), dtype(class_name)?)))
}

fn dtype(class: &str) -> Result<Dtype, String> {
    Ok(match class {
        "FloatStorage" => Dtype::F32,
        "HalfStorage" => Dtype::F16,
        "BFloat16Storage" => Dtype::BF16,
        "DoubleStorage" => Dtype::F64,
        "LongStorage" => Dtype::I64,
        "IntStorage" => Dtype::I32,
        "ShortStorage" => Dtype::I16,
        "CharStorage" => Dtype::I8,
        "ByteStorage" => Dtype::U8,
        "BoolStorage" => Dtype::BOOL,
        other => return Err(format!("holds a `{other}`, expected numbers as in a FloatStorage")),
    })
}

fn collect(object: &Object, into: &mut HashMap<String, Dtype>) -> Result<(), String> {
    if let Some((key, dtype)) = storage_of(object)? {
        into.insert(key, dtype);
    }
    match object {
        Object::Tuple(items) | Object::List(items) => {
            items.iter().try_for_each(|item| collect(item, into))
        }
        Object::Dict(pairs) => pairs.iter().try_for_each(|(_, value)| collect(value, into)),
        Object::Reduce { callable, args } | Object::Build { callable, args } => {
            collect(callable, into)?;
            collect(args, into)
        }
        _ => Ok(()),
    }
}
