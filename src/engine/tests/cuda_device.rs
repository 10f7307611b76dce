//! Devices: found or not, an error in clear words each time; uploads through pinned buffers.

use taiga_engine::cuda::runtime::upload::PIECE;
use taiga_engine::device::{DeviceSet, Gpus, device_info, open};
use taiga_testing::gpu::{gpu, say};

#[test]
fn an_explicit_device_is_there_or_an_error_says_what_was_looked_for() {
    let info = device_info();
    say(&format!("{info:?}"));
    match open("cuda") {
        Ok(device) => {
            assert_eq!(device, DeviceSet::Cuda(Gpus::First));
            assert!(!info.devices.is_empty() && info.unavailable.is_none());
            let first = &info.devices[0];
            assert!(first.free_memory > 0 && first.free_memory <= first.total_memory && first.capability >= (7, 5));
        }
        Err(e) => {
            let why = info.unavailable.expect("a reason");
            assert!(info.devices.is_empty());
            assert!(e.to_string().contains("`device`") && e.to_string().contains(&why) && e.to_string().contains("\"cpu\""), "{e}");
        }
    }
    let e = open("cuda:4000").expect_err("no machine has as many");
    assert!(e.to_string().contains("cuda:4000"), "{e}");
    assert_eq!(open("auto"), Ok(DeviceSet::Auto));
    assert_eq!(open("cpu"), Ok(DeviceSet::Cpu));
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn what_is_uploaded_comes_back() {
    let gpu = gpu();
    for bytes in [0, 1, 5, 4096, 300_000, PIECE - 1, PIECE, PIECE + 1, 40 * PIECE + 12_345] {
        let value = |i: usize| (i.wrapping_mul(2_654_435_761) >> 13) as u8;
        let mut out = gpu.queue.alloc::<u8>("a test", bytes).expect("room");
        let fill = |from: usize, piece: &mut [u8]| piece.iter_mut().enumerate().for_each(|(i, b)| *b = value(from + i));
        gpu.queue.upload(&mut out, bytes, &fill).expect("upload");
        let back = gpu.download(&out);
        assert!((0..bytes).all(|i| back[i] == value(i)), "{bytes} bytes");
    }
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn too_much_memory_is_an_error_with_both_figures_and_the_next_query_works() {
    let gpu = gpu();
    let e = gpu.queue.check_memory("a table", 1 << 50).expect_err("a petabyte").to_string();
    assert!(e.contains("1125899.91 GB") && e.contains("free of"), "{e}");
    let e = gpu.queue.alloc::<u64>("a table", 1 << 47).expect_err("a petabyte").to_string();
    assert!(e.contains("1125899.91 GB") && e.contains("free of"), "{e}");
    gpu.queue.check_memory("a table", 1 << 20).expect("a megabyte");
    assert_eq!(gpu.download(&gpu.upload(&[1u32, 2, 3])), [1, 2, 3]);
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn pairs_are_sorted_stably_by_the_bits_asked_for() {
    let gpu = gpu();
    for n in [0usize, 1, 2, 1000, 3_000_000] {
        let keys: Vec<u64> = (0..n as u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        let values: Vec<u32> = (0..n as u32).collect();
        let from = (gpu.upload(&keys), gpu.upload(&values));
        let mut to = (gpu.poisoned::<u64>(n.max(1)), gpu.poisoned::<u32>(n.max(1)));
        gpu.queue.sort_pairs(&from.0, &from.1, &mut to, n as u32, 8..23).expect("sorted");
        let mut expected = values;
        expected.sort_by_key(|i| keys[*i as usize] >> 8 & 0x7fff);
        assert_eq!(&gpu.download(&to.1)[..n], expected);
        let short: Vec<u32> = keys.iter().map(|k| *k as u32).collect();
        let from = (gpu.upload(&short), gpu.upload(&expected));
        let mut to = (gpu.poisoned::<u32>(n.max(1)), gpu.poisoned::<u32>(n.max(1)));
        gpu.queue.sort_pairs(&from.0, &from.1, &mut to, n as u32, 0..32).expect("sorted");
        let mut pairs: Vec<(u32, u32)> = short.into_iter().zip(expected).collect();
        pairs.sort_by_key(|p| p.0);
        assert_eq!(gpu.download(&to.1)[..n], pairs.into_iter().map(|p| p.1).collect::<Vec<u32>>());
    }
}

/// Proves that a process forked from one that has used a GPU is told to be spawned, and that `"auto"` is the CPU there.
#[test]
#[cfg(unix)]
#[ignore = "needs a GPU: make test-cuda"]
fn a_forked_process_is_told_to_spawn() {
    let gpu = gpu();
    drop(gpu.queue.alloc::<u8>("a test", 1 << 20).expect("room"));
    // SAFETY: the child has this thread alone; it runs what is tested, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let told = open("cuda").is_err_and(|e| e.to_string().contains("spawn") && e.to_string().contains("`device`"));
        let said = device_info().unavailable.is_some_and(|why| why.contains("spawn"));
        let auto = open("auto") == Ok(DeviceSet::Auto);
        // SAFETY: ends the process.
        unsafe { libc::_exit((!told) as i32 + 2 * (!said) as i32 + 4 * (!auto) as i32) };
    }
    let mut status = 0;
    // SAFETY: waits for a process that is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the forked process: {status:#x}");
    drop(gpu.queue.alloc::<u8>("a test", 1 << 20).expect("the parent goes on"));
}
