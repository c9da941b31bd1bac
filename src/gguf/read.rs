//! Little-endian numbers and texts, never more of them than the file has bytes left.

use std::io::Read;

/// Reads on from the start of a file whose length is known.
pub(super) struct Reader<R> {
    inner: R,
    length: u64,
    position: u64,
}

impl<R: Read> Reader<R> {
    pub fn new(inner: R, length: u64) -> Self {
        Self { inner, length, position: 0 }
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn left(&self) -> u64 {
        self.length - self.position
    }

    /// Checks that so many bytes are left.
    pub fn expect(&self, count: u64) -> Result<(), String> {
        if count <= self.left() {
            return Ok(());
        }
        let (at, length) = (self.position, self.length);
        Err(format!("truncated or damaged: {count} bytes expected at byte {at} of {length}"))
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<(), String> {
        self.expect(out.len() as u64)?;
        self.inner.read_exact(out).map_err(|why| format!("could not be read: {why}"))?;
        self.position += out.len() as u64;
        Ok(())
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: u64) -> Result<Vec<u8>, String> {
        self.expect(count)?;
        let mut out = vec![0; count as usize];
        self.fill(&mut out)?;
        Ok(out)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut out = [0; N];
        self.fill(&mut out)?;
        Ok(out)
    }

    pub fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    /// A text that messages may show: short and in one line.
    pub fn name(&mut self) -> Result<String, String> {
        let at = self.position;
        let name = self.text()?;
        match name.len() > 256 || name.chars().any(char::is_control) {
            true => Err(format!("damaged: expected a name at byte {at}")),
            false => Ok(name),
        }
    }

    /// A length and as many bytes; what is not UTF-8 in them is replaced.
    pub fn text(&mut self) -> Result<String, String> {
        let length = self.u64()?;
        let bytes = self.bytes(length)?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|why| String::from_utf8_lossy(why.as_bytes()).into_owned()))
    }
}
