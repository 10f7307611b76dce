#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    taiga_fuzz::imported(data);
});
