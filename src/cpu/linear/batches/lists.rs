//! Lists of a batch's entries: which coefficients it reads, once each, and which of them each entry of its rows is of. They are made
//! once for all epochs, so that a batch reads each coefficient once and writes it once, and sums in arrays as long as itself.

use taiga_core::learners::linear::csr::Csr;
use taiga_core::learners::linear::feature_scale::FeatureScale;
use taiga_core::memory::{prefetch_near, product};
use taiga_core::pages;

/// Neighbouring features that stay together.
pub const TOGETHER: u32 = 16;

/// The most owners.
pub const MOST_OWNERS: usize = 64;

/// How features are dealt to the threads that own them: runs of neighbours, one to each in turn, beginning with another owner at each
/// turn, so that no stride of feature numbers falls to one thread alone.
#[derive(Clone, Copy)]
pub struct Owners {
    pub count: usize,
    /// 2^35 / count, rounded up: division by multiplication, exact for runs below 2^28 and fewer than 2^7 owners.
    inverse: u64,
}

impl Owners {
    pub fn new(count: usize) -> Owners {
        Owners { count, inverse: (1u64 << 35).div_ceil(count as u64) }
    }

    /// Returns the owner who is the first at a turn.
    #[inline(always)]
    fn first(self, turn: u32) -> u32 {
        ((turn.wrapping_mul(0x9E37_79B1) as u64 * self.count as u64) >> 32) as u32
    }

    /// Returns the owner of a feature and its place among the owner's.
    #[inline(always)]
    pub fn of(self, feature: u32) -> (usize, u32) {
        if self.count == 1 {
            return (0, feature);
        }
        let (run, at, count) = (feature / TOGETHER, feature % TOGETHER, self.count as u32);
        let turn = ((run as u64 * self.inverse) >> 35) as u32;
        let owner = run - turn * count + self.first(turn);
        ((if owner < count { owner } else { owner - count }) as usize, turn * TOGETHER + at)
    }

    /// Returns the feature at a place of an owner's.
    pub fn feature(self, owner: usize, place: u32) -> u32 {
        let (turn, at, count) = (place / TOGETHER, place % TOGETHER, self.count as u32);
        let run = turn * count + (owner as u32 + count - self.first(turn)) % count;
        run * TOGETHER + at
    }

    /// Returns how many places each owner has for `width` features.
    pub fn places(self, width: usize) -> usize {
        let together = TOGETHER as usize;
        if self.count == 1 { width } else { width.div_ceil(together * self.count) * together }
    }
}

/// A place, in as few bytes as it takes.
pub trait Place: Copy + Send + Sync {
    fn of(place: usize) -> Self;
    fn at(self) -> usize;
}

impl Place for u16 {
    #[inline(always)]
    fn of(place: usize) -> u16 {
        place as u16
    }

    #[inline(always)]
    fn at(self) -> usize {
        self as usize
    }
}

impl Place for u32 {
    #[inline(always)]
    fn of(place: usize) -> u32 {
        place as u32
    }

    #[inline(always)]
    fn at(self) -> usize {
        self as usize
    }
}

/// The lists of some consecutive batches.
pub struct ListGroup<P> {
    /// Where each row's entries begin among those of its batch, and their number behind each batch.
    starts: Vec<u32>,
    /// Row after row, the place of each entry's feature among those of its batch: the first owner's, then the next one's.
    places: Vec<P>,
    owned: Vec<OwnedGroup<P>>,
    /// Where each batch begins in the above, and where the last one ends.
    firsts: Vec<First>,
}

/// The part of one owner.
struct OwnedGroup<P> {
    features: Vec<u32>,
    units: Vec<f64>,
    starts: Vec<u32>,
    /// None where there is one owner, whose places are those of all.
    places: Vec<P>,
    values: Vec<f64>,
    /// Where each batch begins in features, and in places.
    firsts: Vec<(usize, usize)>,
}

#[derive(Clone, Copy)]
struct First {
    row: usize,
    entry: usize,
}

/// The lists of one batch.
pub struct BatchLists<'l, P> {
    /// Where each row's entries begin among `places`, and their number.
    pub starts: &'l [u32],
    /// Row after row, the place of each entry's feature among those of the batch: the first owner's, then the next one's.
    pub places: &'l [P],
}

/// The part of one owner.
pub struct OwnedLists<'l, P> {
    /// The features of the batch, each once, by their places among the owner's.
    pub features: &'l [u32],
    /// What an integer of their sums stands for, where that differs.
    pub units: &'l [f64],
    /// Where each row's entries of these features begin among `places`, and their number.
    pub starts: &'l [u32],
    /// Row after row, the places of these entries in `features`.
    pub places: &'l [P],
    /// The values of the entries in units of their features, where rows have values.
    pub values: &'l [f64],
}

impl<P: Place> ListGroup<P> {
    /// Returns the lists of the batch at `at` of the group.
    pub fn batch(&self, at: usize) -> BatchLists<'_, P> {
        let (first, end) = (self.firsts[at], self.firsts[at + 1]);
        BatchLists { starts: &self.starts[first.row + at..end.row + at + 1], places: &self.places[first.entry..end.entry] }
    }

    /// Returns the part of one owner.
    pub fn owned(&self, at: usize, owner: usize) -> OwnedLists<'_, P> {
        let own = &self.owned[owner];
        let ((feature, entry), (end, last)) = (own.firsts[at], own.firsts[at + 1]);
        let BatchLists { starts, places } = self.batch(at);
        let (starts, places) = if self.owned.len() == 1 {
            (starts, places)
        } else {
            (&own.starts[self.firsts[at].row + at..self.firsts[at + 1].row + at + 1], &own.places[entry..last])
        };
        OwnedLists {
            features: &own.features[feature..end],
            units: own.units.get(feature..end).unwrap_or(&[]),
            starts,
            places,
            values: own.values.get(entry..last).unwrap_or(&[]),
        }
    }

    /// Asks for what one of the threads reads of a batch.
    pub fn fetch(&self, at: usize, owner: usize) {
        let (all, own) = (self.batch(at), self.owned(at, owner));
        fetch(own.features);
        fetch(own.starts);
        fetch(own.places);
        let size = all.places.len().div_ceil(self.owned.len()).max(1);
        fetch(all.places.chunks(size).nth(owner).unwrap_or(&[]));
        fetch(all.starts);
    }
}

/// Asks for all lines of the cache that a slice lies in.
fn fetch<T>(items: &[T]) {
    let start = items.as_ptr() as *const u8;
    (0..size_of_val(items)).step_by(64).for_each(|at| prefetch_near(start.wrapping_add(at)));
}

/// Returns the bytes of lists of so many entries, at the most.
pub fn list_bytes<P>(entries: usize, has_values: bool) -> u64 {
    let entry = 2 * size_of::<P>() + 4 + if has_values { 16 } else { 0 };
    product(&[entry as u64, entries as u64])
}

/// The features that a batch has had, and their places: a hash table of more slots than it has entries, small enough for a core's own
/// caches, which no batch has to clear.
struct SeenFeatures {
    /// Feature, and place counted from `base`; one before `base` is of an earlier batch.
    slots: Vec<(u32, u32)>,
    shift: u32,
    base: u32,
    /// What a batch may add to `base`.
    most: u32,
}

impl SeenFeatures {
    /// Makes room for `most` features at a time.
    fn new(most: usize) -> Self {
        let bits = (4 * most.max(1)).next_power_of_two().trailing_zeros();
        SeenFeatures { slots: pages::filled((0, 0), 1 << bits), shift: 32 - bits.min(32), base: 1, most: most as u32 + 1 }
    }

    /// Begins another batch.
    fn forget(&mut self) {
        match self.base.checked_add(self.most).filter(|base| base.checked_add(self.most).is_some()) {
            Some(base) => self.base = base,
            None => {
                self.slots.fill((0, 0));
                self.base = 1;
            }
        }
    }

    /// Returns the place of a feature, which is `place` if the batch has not had it yet.
    #[inline(always)]
    fn place_or(&mut self, feature: u32, place: u32) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = (feature.wrapping_mul(0x9E37_79B1) >> self.shift) as usize;
        loop {
            let slot = &mut self.slots[at & mask];
            if slot.1 < self.base {
                *slot = (feature, self.base + place);
                return place;
            }
            if slot.0 == feature {
                return slot.1 - self.base;
            }
            at += 1;
        }
    }
}

/// What makes lists, one group of batches after the other.
pub struct ListMaker<'p, 'a> {
    csr: &'p Csr<'a>,
    owners: Owners,
    feature_scale: &'p FeatureScale,
    /// What sums are scaled by.
    scale: f64,
    seen: SeenFeatures,
    /// Of each entry of a batch its owner, and the place there.
    entries: Vec<(u32, u32)>,
    /// Of each owner its features, and the places of its entries.
    features: Vec<u32>,
    places: Vec<u32>,
    /// How many of each an owner has.
    counts: Vec<(usize, usize)>,
}

impl<'p, 'a> ListMaker<'p, 'a> {
    /// Makes room for batches of at most `most` entries.
    pub fn new(csr: &'p Csr<'a>, most: usize, owners: Owners, feature_scale: &'p FeatureScale, scale: f64) -> Self {
        ListMaker {
            csr,
            owners,
            feature_scale,
            scale,
            seen: SeenFeatures::new(most),
            entries: vec![],
            features: vec![],
            places: vec![],
            counts: vec![],
        }
    }

    /// Makes the lists of batches, whose rows are given. A batch has fewer than 2^32 entries, and no more features than `P` counts.
    pub fn group<P: Place>(&mut self, batches: &[&[usize]]) -> ListGroup<P> {
        let entries: usize = batches.iter().copied().flatten().map(|i| self.csr.row(*i).keys.len()).sum();
        let starts = batches.iter().map(|rows| rows.len() + 1).sum();
        let several = self.owners.count > 1;
        let (values, units) = (self.csr.has_values(), self.feature_scale.inverse.is_some());
        // A little more than an owner has when all have as many.
        let some = entries / self.owners.count + entries / 16;
        let room = |wanted: bool| if wanted { some } else { 0 };
        let owned = |_| OwnedGroup {
            features: pages::with_capacity(some),
            units: pages::with_capacity(room(units)),
            starts: Vec::with_capacity(if several { starts } else { 0 }),
            places: pages::with_capacity(room(several)),
            values: pages::with_capacity(room(values)),
            firsts: Vec::with_capacity(batches.len() + 1),
        };
        let mut group = ListGroup {
            starts: Vec::with_capacity(starts),
            places: pages::with_capacity(entries),
            owned: (0..self.owners.count).map(owned).collect(),
            firsts: Vec::with_capacity(batches.len() + 1),
        };
        let mut row = 0;
        for rows in batches {
            group.begin(row);
            self.add(&mut group, rows);
            row += rows.len();
        }
        group.begin(row);
        group
    }

    /// Adds the lists of a batch.
    fn add<P: Place>(&mut self, group: &mut ListGroup<P>, rows: &[usize]) {
        let total: usize = rows.iter().map(|i| self.csr.row(*i).keys.len()).sum();
        let (owners, feature_scale, scale) = (self.owners, self.feature_scale, self.scale);
        self.seen.forget();
        self.entries.resize(total, (0, 0));
        // Each owner has `total` of these, which nobody counts on to be anything.
        self.features.resize(owners.count * total, 0);
        self.places.resize(owners.count * total, 0);
        self.counts.clear();
        self.counts.resize(owners.count, (0, 0));
        let mut rest = self.entries.as_mut_slice();
        for number in rows {
            let row = self.csr.row(*number);
            group.starts.push((total - rest.len()) as u32);
            if owners.count > 1 {
                group.owned.iter_mut().zip(&self.counts).for_each(|(own, (_, entries))| own.starts.push(*entries as u32));
            }
            let (entries, behind) = rest.split_at_mut(row.keys.len());
            rest = behind;
            for (entry, key) in entries.iter_mut().zip(row.keys) {
                let (owner, feature) = owners.of(*key);
                let (features, entries) = &mut self.counts[owner];
                let place = self.seen.place_or(*key, *features as u32);
                // What is not new is written over by what is.
                self.features[owner * total + *features] = feature;
                self.places[owner * total + *entries] = place;
                *features += (place == *features as u32) as usize;
                *entries += 1;
                *entry = (owner as u32, place);
            }
            if let Some(values) = row.values {
                for ((key, x), (owner, _)) in row.keys.iter().zip(values).zip(&*entries) {
                    group.owned[*owner as usize].values.push(*x as f64 * feature_scale.inverse(*key as usize));
                }
            }
        }
        group.starts.push(total as u32);
        let (mut first, mut before) = (vec![0; owners.count], 0);
        for (owner, own) in group.owned.iter_mut().enumerate() {
            let (features, entries) = self.counts[owner];
            first[owner] = before;
            before += features as u32;
            own.features.extend_from_slice(&self.features[owner * total..owner * total + features]);
            if owners.count > 1 {
                own.starts.push(entries as u32);
                own.places.extend(self.places[owner * total..owner * total + entries].iter().map(|place| P::of(*place as usize)));
            }
            if feature_scale.inverse.is_some() {
                let of_feature = |feature: &u32| 1.0 / (scale * feature_scale.inverse(owners.feature(owner, *feature) as usize));
                own.units.extend(self.features[owner * total..owner * total + features].iter().map(of_feature));
            }
        }
        group.places.extend(self.entries.iter().map(|(owner, place)| P::of((first[*owner as usize] + place) as usize)));
    }
}

impl<P> ListGroup<P> {
    /// Notes that a batch begins, with this row of the group.
    fn begin(&mut self, row: usize) {
        self.firsts.push(First { row, entry: self.places.len() });
        let several = self.owned.len() > 1;
        for own in &mut self.owned {
            own.firsts.push((own.features.len(), if several { own.places.len() } else { self.places.len() }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that each feature has one place of one owner, below what there is room for, and that the way back is its.
    #[test]
    fn each_feature_has_one_place() {
        for count in [1, 2, 3, 5, 16, MOST_OWNERS] {
            let owners = Owners::new(count);
            for width in [1, 15, 16, 17, 100, 4096, 5000] {
                let mut all: Vec<(usize, u32)> = (0..width as u32).map(|feature| owners.of(feature)).collect();
                assert!(all.iter().all(|(owner, place)| *owner < count && (*place as usize) < owners.places(width)));
                assert!(all.iter().enumerate().all(|(feature, (owner, place))| owners.feature(*owner, *place) == feature as u32));
                all.sort_unstable();
                all.dedup();
                assert_eq!(all.len(), width);
            }
            let last = owners.of(u32::MAX);
            assert_eq!(owners.feature(last.0, last.1), u32::MAX);
        }
    }

    /// Proves that a feature keeps its place through a batch, and has another in the next one, also when places have been counted to the end.
    #[test]
    fn seen_features_keep_their_places() {
        let mut seen = SeenFeatures::new(50);
        let mut draw = 1u32;
        for batch in 0..200 {
            if batch == 100 {
                seen.base = u32::MAX - 60;
            }
            seen.forget();
            let mut naive = std::collections::HashMap::new();
            for _ in 0..50 {
                draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let (feature, count) = ((draw >> 26) * 0x0400_0000, naive.len() as u32);
                assert_eq!(seen.place_or(feature, count), *naive.entry(feature).or_insert(count));
            }
        }
    }
}
