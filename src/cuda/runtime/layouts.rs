//! Structs that the kernels read: their sizes and offsets are asserted when this is compiled, against the lists that nvcc asserts the kernels'
//! own against (`kernels/*/layouts.def`).

/// Returns the number behind `line` in a list; `usize::MAX` where the line is not there.
pub(crate) const fn number_behind(list: &str, line: &str) -> usize {
    let (list, line) = (list.as_bytes(), line.as_bytes());
    let mut at = 0;
    while at + line.len() < list.len() {
        let mut same = 0;
        while same < line.len() && list[at + same] == line[same] {
            same += 1;
        }
        if same == line.len() {
            let (mut number, mut digit) = (0, at + same);
            while list[digit].is_ascii_digit() {
                number = 10 * number + (list[digit] - b'0') as usize;
                digit += 1;
            }
            return number;
        }
        // On to the next line.
        while at < list.len() && list[at] != b'\n' {
            at += 1;
        }
        at += 1;
    }
    usize::MAX
}

/// Asserts that structs are laid out as the kernels' of the given names are.
macro_rules! assert_layouts {
    ($list:expr; $($name:ident as $twin:literal { $($field:ident),* $(,)? })*) => {$(
        const _: () = assert!(
            size_of::<$name>() == $crate::runtime::layouts::number_behind($list, concat!("STRUCT(", $twin, ", ")),
            concat!("the kernels' ", $twin, " has another size")
        );
        $(const _: () = assert!(
            std::mem::offset_of!($name, $field) == $crate::runtime::layouts::number_behind($list, concat!("FIELD(", $twin, ", ", stringify!($field), ", ")),
            concat!("the kernels' ", $twin, ".", stringify!($field), " lies elsewhere")
        );)*
    )*};
}
pub(crate) use assert_layouts;

#[cfg(test)]
mod tests {
    use super::number_behind;

    /// Proves that lines are found whole, the first and the last one too, and that what is not there is told.
    #[test]
    fn lines_are_found_whole() {
        let list = "STRUCT(A, 24)\nFIELD(A, sum, 0)\nFIELD(A, summed, 8)\nSTRUCT(AB, 128)\n";
        assert_eq!(number_behind(list, "STRUCT(A, "), 24);
        assert_eq!(number_behind(list, "FIELD(A, sum, "), 0);
        assert_eq!(number_behind(list, "FIELD(A, summed, "), 8);
        assert_eq!(number_behind(list, "STRUCT(AB, "), 128);
        assert_eq!(number_behind(list, "FIELD(A, su, "), usize::MAX);
        assert_eq!(number_behind(list, "STRUCT(B, "), usize::MAX);
    }
}
