//! Reads the structs that host and kernels share from the kernels' headers: those whose first line ends in `// shared with the host`, or in
//! `// shared with the host as Name` where the host calls them otherwise. Of them it writes
//!
//! - what nvcc asserts of each, at the end of the sources that have it: `OUT_DIR/asserted/<folder>.cuh`;
//! - the macro that defines the host's twins, with the same sizes and offsets asserted: `OUT_DIR/shared_structs.rs`.
//!
//! Fields come first in such a struct, several of a type in a line: numbers, arrays of them, pointers, and structs that are shared too.
//! A pointer is an address on the host, a `u64`.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const MARK: &str = "// shared with the host";

/// The numbers of fields: in C, in Rust, and their bytes.
const NUMBERS: [(&str, &str, usize); 10] = [
    ("uint8_t", "u8", 1),
    ("uint16_t", "u16", 2),
    ("uint32_t", "u32", 4),
    ("int32_t", "i32", 4),
    ("float", "f32", 4),
    ("uint64_t", "u64", 8),
    ("int64_t", "i64", 8),
    ("unsigned long long", "u64", 8),
    ("double", "f64", 8),
    ("int128_t", "i128", 16),
];

/// A type of fields: its name on the host, its size and its alignment.
#[derive(Clone)]
struct FieldType {
    host: String,
    size: usize,
    align: usize,
}

/// A struct: of numbers of one type where that is a parameter `F` of its template.
struct Struct {
    folder: String,
    path: String,
    /// Its name in the kernels, with the struct's around it.
    name: String,
    host: String,
    align: usize,
    is_template: bool,
    /// Types and names.
    fields: Vec<(String, String)>,
}

/// What is written of all structs.
pub struct SharedStructs {
    /// Folders, and what nvcc asserts of the structs of each.
    pub asserted: Vec<(String, String)>,
    /// The macro that defines the host's twins.
    pub twins: String,
}

impl SharedStructs {
    /// Reads `headers`.
    pub fn read(headers: &[PathBuf]) -> Result<SharedStructs, String> {
        let mut structs = vec![];
        for path in headers {
            let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
            read_header(path, &text, &mut structs)?;
        }
        let mut types: HashMap<String, FieldType> = HashMap::new();
        for (name, host, size) in NUMBERS {
            types.insert(name.into(), FieldType { host: host.into(), size, align: size });
        }
        let mut written = SharedStructs { asserted: vec![], twins: String::new() };
        // A struct is written once all that it has as fields are.
        while !structs.is_empty() {
            let (ready, rest): (Vec<Struct>, Vec<Struct>) = structs.into_iter().partition(|s| s.is_known(&types));
            if let (true, Some(s)) = (ready.is_empty(), rest.first()) {
                return Err(format!("{}: {} has a field of a type that the host does not know", s.path, s.name));
            }
            for s in ready {
                written.add(&s, &mut types);
            }
            structs = rest;
        }
        written.twins = format!(
            "/// Defines the host's twin of a struct of the kernels by its name.\n#[macro_export]\nmacro_rules! kernel_struct {{\n{}}}\n",
            written.twins
        );
        Ok(written)
    }

    fn add(&mut self, s: &Struct, types: &mut HashMap<String, FieldType>) {
        let (host, generics) = (&s.host, if s.is_template { "<F>" } else { "" });
        let align = if s.align > 1 { format!(", align({})", s.align) } else { String::new() };
        let fields = s.fields.iter().map(|(of, name)| match &field_type(of, types) {
            Some(t) if !is_parameter(of) => format!("pub {name}: {}, ", t.host),
            _ => format!("pub {name}: F, "),
        });
        let mut twin = format!(
            "({host}) => {{\n#[doc = \"Twin of `{}` in `kernels/{}`.\"]\n#[repr(C{align})]\n#[derive(Clone, Copy, Debug, Default)]\n\
             #[allow(dead_code)]\npub struct {host}{generics} {{ {}}}\n",
            s.name,
            s.path,
            fields.collect::<String>()
        );
        let mut asserted = String::new();
        for parameter in if s.is_template { &["float", "double"][..] } else { &[""] } {
            let bound = types.get(*parameter).cloned();
            if let Some(bound) = &bound {
                types.insert("F".into(), bound.clone());
            }
            let (of, of_host) = match &bound {
                Some(bound) => (format!("{}<{parameter}>", s.name), format!("{host}<{}>", bound.host)),
                None => (s.name.clone(), host.clone()),
            };
            let (mut at, mut align) = (0usize, s.align);
            for (of_field, name) in &s.fields {
                let Some(t) = field_type(of_field, types) else { continue };
                at = at.next_multiple_of(t.align);
                align = align.max(t.align);
                let _ = writeln!(asserted, "static_assert(offsetof({of}, {name}) == {at}, \"{of}.{name}\");");
                let _ = writeln!(twin, "const _: () = assert!(core::mem::offset_of!({of_host}, {name}) == {at});");
                at += t.size;
            }
            let size = at.next_multiple_of(align);
            let _ = writeln!(asserted, "static_assert(sizeof({of}) == {size}, \"{of}\");");
            let _ = writeln!(twin, "const _: () = assert!(size_of::<{of_host}>() == {size});");
            types.insert(of, FieldType { host: of_host, size, align });
            types.remove("F");
        }
        self.twins += &format!("{twin}}};\n");
        match self.asserted.iter_mut().find(|(folder, _)| *folder == s.folder) {
            Some((_, text)) => *text += &asserted,
            None => self.asserted.push((s.folder.clone(), asserted)),
        }
    }
}

impl Struct {
    fn is_known(&self, types: &HashMap<String, FieldType>) -> bool {
        self.fields.iter().all(|(of, _)| self.is_template && is_parameter(of) || field_type(of, types).is_some())
    }
}

/// Whether a type is the parameter of a template.
fn is_parameter(of: &str) -> bool {
    of == "F"
}

/// What stands for a type on the host: a pointer's address, as many of one type as `type[n]` has, or what is known by the name.
fn field_type(of: &str, types: &HashMap<String, FieldType>) -> Option<FieldType> {
    if of.ends_with('*') {
        return types.get("uint64_t").cloned();
    }
    let Some((of, count)) = of.strip_suffix(']').and_then(|of| of.rsplit_once('[')) else { return types.get(of).cloned() };
    let (one, count) = (field_type(of, types)?, count.parse::<usize>().ok()?);
    Some(FieldType { host: format!("[{}; {count}]", one.host), size: one.size * count, align: one.align })
}

/// Adds the shared structs of a header.
fn read_header(path: &Path, text: &str, structs: &mut Vec<Struct>) -> Result<(), String> {
    let path = path.strip_prefix(".").unwrap_or(path);
    let folder = path.iter().next().unwrap_or_default().to_string_lossy().into_owned();
    let (mut outer, mut is_template, mut open) = (String::new(), false, false);
    for line in text.lines() {
        if let Some((head, host)) = line.split_once(MARK) {
            let name = head.trim().trim_end_matches('{').split_whitespace().last().unwrap_or_default();
            let align = head
                .split_once("alignas(")
                .or(head.split_once("__align__("))
                .and_then(|(_, n)| n.split_once(')')?.0.parse().ok())
                .unwrap_or(1);
            structs.push(Struct {
                folder: folder.clone(),
                path: path.display().to_string(),
                name: if line.starts_with(' ') { format!("{outer}::{name}") } else { name.into() },
                host: host.trim().strip_prefix("as ").unwrap_or(name).into(),
                align,
                is_template,
                fields: vec![],
            });
            open = true;
            continue;
        }
        is_template = line.starts_with("template <typename F>");
        if let Some(name) = line.strip_prefix("struct ") {
            outer = name.split_whitespace().next().unwrap_or_default().into();
        }
        let code = line.split("//").next().unwrap_or_default().trim();
        // Fields end where the struct does, or its first function begins.
        open &= !code.starts_with('}') && !code.contains('(');
        if !open || code.is_empty() || code.starts_with("using ") {
            continue;
        }
        let Some(s) = structs.last_mut() else { continue };
        let fields = read_fields(code).ok_or_else(|| format!("{}: {}: no field of a shared struct: {code}", s.path, s.name))?;
        s.fields.extend(fields);
    }
    Ok(())
}

/// Types and names of the fields that a line declares.
fn read_fields(line: &str) -> Option<Vec<(String, String)>> {
    let (first, others) = match line.strip_suffix(';')?.split_once(',') {
        Some((first, others)) => (first, Some(others)),
        None => (line.strip_suffix(';')?, None),
    };
    let (of, first) = first.rsplit_once(' ')?;
    let of = of.trim().strip_prefix("const ").unwrap_or(of.trim());
    let names = std::iter::once(first).chain(others.into_iter().flat_map(|o| o.split(',')).map(str::trim));
    let field = |name: &str| match name.split_once('[') {
        Some((name, count)) if of.ends_with('*') => (format!("uint64_t[{count}"), name.to_string()),
        Some((name, count)) => (format!("{of}[{count}"), name.to_string()),
        None => (of.to_string(), name.to_string()),
    };
    Some(names.map(field).collect())
}
