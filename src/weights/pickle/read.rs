//! Pickle → plain values: candle's interpreter, which runs nothing, under guard against what it
//! takes on trust: lengths, nesting, and objects that multiply through the memo.

use candle_core::pickle::{Object, OpCode, Stack};

/// Deepest nesting of values; a tensor of a state dict needs about eight.
const DEPTH: usize = 48;
/// Most values that may be made or copied in all; a tensor needs about a thousand.
const BUDGET: usize = 1 << 25;

/// What a state dict may name. Nothing of it is called, but a file that names anything else is not
/// a plain tensor pickle.
const KNOWN: [(&str, &str); 9] = [
    ("collections", "OrderedDict"),
    ("torch", "Size"),
    ("torch", "Tensor"),
    ("torch._tensor", "_rebuild_from_type_v2"),
    ("torch._utils", "_rebuild_parameter"),
    ("torch._utils", "_rebuild_tensor"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch.nn.parameter", "Parameter"),
    ("torch.storage", "UntypedStorage"),
];

/// Reads one pickle from the start of `bytes` and leaves them after its end.
pub(super) fn object(bytes: &mut &[u8]) -> Result<Object, String> {
    let mut stack = Stack::empty();
    let mut left = BUDGET;
    loop {
        let Some(&op) = bytes.first() else { return Err(cut_short()) };
        check(op, &bytes[1..])?;
        if stack.read(bytes).map_err(|_| "its pickle is damaged".to_string())? {
            return stack.finalize().map_err(|_| cut_short());
        }
        // operations that nest, merge or copy values leave the result on top
        if b"Rbtuesahjqrd\x81\x85\x86\x87Q".contains(&op)
            && let Some(top) = stack.stack().last()
        {
            weigh(top, DEPTH, &mut left)?;
        }
    }
}

fn cut_short() -> String {
    "its pickle is cut short".into()
}

/// Looks at an operation before it is carried out.
fn check(op: u8, operand: &[u8]) -> Result<(), String> {
    match op {
        0x80 if operand.first().is_some_and(|&version| version > 3) => Err(format!(
            "a pickle of protocol {}, expected 2, which torch.save writes",
            operand.first().copied().unwrap_or_default()
        )),
        b'X' => {
            let length = operand.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize);
            match length {
                Some(length) if length <= operand.len() - 4 => Ok(()),
                _ => Err(cut_short()),
            }
        }
        0x8a if operand.first().is_some_and(|&length| length > 8) => {
            Err("a whole number of more than 64 bits in its pickle".into())
        }
        b'c' => global(operand),
        _ if OpCode::try_from(op).is_err() => Err(format!(
            "not a plain tensor pickle (operation {op:#04x}); refused, nothing was run"
        )),
        _ => Ok(()),
    }
}

fn global(operand: &[u8]) -> Result<(), String> {
    let mut lines = operand.splitn(3, |&byte| byte == b'\n');
    let (Some(module), Some(name), Some(_)) = (lines.next(), lines.next(), lines.next()) else {
        return Err(cut_short());
    };
    let text = |bytes: &[u8]| {
        let text: String = String::from_utf8_lossy(bytes).chars().take(60).collect();
        text.escape_debug().to_string()
    };
    let (module, name) = (text(module), text(name));
    let storage = module == "torch" && name.ends_with("Storage");
    if storage || KNOWN.contains(&(module.as_str(), name.as_str())) {
        return Ok(());
    }
    Err(format!("not a plain tensor pickle: it names `{module}.{name}`; refused, nothing was run"))
}

fn weigh(object: &Object, depth: usize, left: &mut usize) -> Result<(), String> {
    let size = match object {
        Object::Unicode(text) => 1 + text.len() / 32,
        _ => 1,
    };
    let within = left.checked_sub(size);
    *left = within.ok_or("its pickle makes more values than any checkpoint needs")?;
    let depth = depth.checked_sub(1).ok_or("its pickle is nested deeper than any state dict")?;
    let mut each = |object: &Object| weigh(object, depth, left);
    match object {
        Object::Tuple(items) | Object::List(items) => items.iter().try_for_each(each),
        Object::Dict(pairs) => {
            pairs.iter().try_for_each(|(key, value)| each(key).and_then(|()| each(value)))
        }
        Object::Reduce { callable, args } | Object::Build { callable, args } => {
            each(callable).and_then(|()| each(args))
        }
        Object::PersistentLoad(id) => each(id),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(pickle: &[u8]) -> String {
        object(&mut &pickle[..]).expect_err("refused")
    }

    #[test]
    fn what_multiplies_or_nests_is_refused() {
        // x = (x, x), thirty times: a billion values
        let mut bomb = b"\x80\x02)q\x00".to_vec();
        (0..30u8).for_each(|_| bomb.extend(b"h\x00h\x00\x86q\x00"));
        bomb.push(b'.');
        assert!(refusal(&bomb).contains("more values"), "{}", refusal(&bomb));
        let mut deep = b"\x80\x02)".to_vec();
        deep.extend(std::iter::repeat_n(0x85, 1 << 20));
        assert!(refusal(&deep).contains("nested deeper"));
        let mut lists = b"\x80\x02".to_vec();
        lists.extend(std::iter::repeat_n(b']', 1 << 16));
        lists.extend(std::iter::repeat_n(b'a', 1 << 16));
        assert!(refusal(&lists).contains("nested deeper"));
    }

    #[test]
    fn lengths_are_not_taken_on_trust() {
        assert!(refusal(b"\x80\x02X\xff\xff\xff\xffabc").contains("cut short"));
        assert!(refusal(b"\x80\x02X\xff").contains("cut short"));
        assert!(refusal(b"\x80\x02\x8a\xff").contains("64 bits"));
        assert!(refusal(b"\x80\x02ctorch\n").contains("cut short"));
        assert!(refusal(b"\x80\x02").contains("cut short"));
        assert!(refusal(b"\x80\x02R.").contains("damaged"));
        assert!(refusal(b"\x80\x02.").contains("cut short"));
        assert!(refusal(b"\x80\x04\x95").contains("protocol 4"));
        assert!(refusal(b"cos\nsystem\n(X\x02\0\0\0lstR.").contains("`os.system`"));
        assert!(refusal(b"\x80\x02\x93").contains("operation 0x93"));
    }
}
