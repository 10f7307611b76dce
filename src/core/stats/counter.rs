//! Counters of bins.

/// Counts indices; several counters for each bin, so that equal values in a row don't wait for
/// each other's store.
///
/// ```text
/// slot  = bin · copies + (place in the row of values) mod copies        values: a a b a
/// copies of one bin side by side                                        slots:  a0 a1 b2 a3
/// ```
pub(super) struct Counter {
    slots: Vec<u32>,
    copies: usize,
    /// Indices counted since the slots were added to the totals: a slot never overflows.
    since: usize,
    totals: Vec<u64>,
}

/// Indices that are counted in one go.
const LANES: usize = 8;

impl Counter {
    /// Counts indices `0 ..= bins`; the last one is for what no bin holds.
    pub fn new(bins: usize) -> Self {
        // As many as keep the counters in the L1 cache.
        let copies = match bins {
            0..=256 => 8,
            257..=1024 => 4,
            1025..=2048 => 2,
            _ => 1,
        };
        Counter { slots: vec![0; (bins + 1) * copies], copies, since: 0, totals: vec![0; bins + 1] }
    }

    /// Counts each of `indices`.
    pub fn add(&mut self, indices: &[u32]) {
        if self.since + indices.len() > u32::MAX as usize {
            self.flush();
        }
        self.since += indices.len();
        match self.copies {
            8 => count::<8>(&mut self.slots, indices),
            4 => count::<4>(&mut self.slots, indices),
            2 => count::<2>(&mut self.slots, indices),
            _ => count::<1>(&mut self.slots, indices),
        }
    }

    fn flush(&mut self) {
        for (total, slots) in self.totals.iter_mut().zip(self.slots.chunks_mut(self.copies)) {
            *total += slots.iter().map(|&n| n as u64).sum::<u64>();
            slots.fill(0);
        }
        self.since = 0;
    }

    /// Returns the counts of the bins.
    pub fn finish(mut self) -> Vec<u64> {
        self.flush();
        self.totals.pop();
        self.totals
    }
}

fn count<const COPIES: usize>(slots: &mut [u32], indices: &[u32]) {
    let (slots, _) = slots.as_chunks_mut::<COPIES>();
    let (lanes, rest) = indices.as_chunks::<LANES>();
    for indices in lanes {
        for i in 0..LANES {
            slots[indices[i] as usize][i % COPIES] += 1;
        }
    }
    for &index in rest {
        slots[index as usize][0] += 1;
    }
}

/// Returns the sums of counts of several threads.
pub(super) fn add_counts(shares: Vec<Vec<u64>>) -> Vec<u64> {
    let mut shares = shares.into_iter();
    let mut total = shares.next().unwrap_or_default();
    for share in shares {
        total.iter_mut().zip(share).for_each(|(total, n)| *total += n);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_whatever_the_number_of_bins_and_the_lengths() {
        for bins in [1, 3, 256, 257, 1024, 1025, 2048, 2049, 10_000] {
            let indices: Vec<u32> = (0..1_000u32).map(|i| (i * i + 17 * i) % (bins + 1)).collect();
            let mut counter = Counter::new(bins as usize);
            for part in indices.chunks(333) {
                counter.add(part);
                counter.since = u32::MAX as usize - 100;
            }
            let naive: Vec<u64> = (0..bins).map(|b| indices.iter().filter(|i| **i == b).count() as u64).collect();
            assert_eq!(counter.finish(), naive);
        }
    }
}
