//! Lists of a batch's entries: which coefficients it reads, once each, and which of them each entry of its rows is of. They are made
//! once for all epochs, so that a batch reads each coefficient once and writes it once, and sums in arrays as long as itself.

use taiga_core::learners::linear::csr::Csr;
use taiga_core::learners::linear::feature_scale::FeatureScale;
use taiga_core::memory::prefetch_near;
use taiga_core::pages;

/// Neighbouring features that stay together.
const TOGETHER: usize = 16;

/// How features are dealt to the threads that own them: runs of neighbours, as many to each, in an order that is another for each
/// so many runs, so that no stride of feature numbers falls to one thread alone.
#[derive(Clone, Copy)]
pub struct Owners {
    pub count: usize,
    /// 2^64 / count, rounded up: division by multiplication.
    inverse: u64,
}

impl Owners {
    pub fn new(count: usize) -> Owners {
        Owners { count, inverse: (u64::MAX / count as u64).wrapping_add(1) }
    }

    /// Returns the owner of a feature and its place among the owner's.
    #[inline(always)]
    pub fn of(self, feature: u32) -> (usize, u32) {
        if self.count == 1 {
            return (0, feature);
        }
        let (run, at) = (feature / TOGETHER as u32, feature % TOGETHER as u32);
        let turn = ((run as u128 * self.inverse as u128) >> 64) as u32;
        let first = run as usize - turn as usize * self.count;
        let shift = ((turn.wrapping_mul(0x9E37_79B1) as u64 * self.count as u64) >> 32) as usize;
        let owner = first + shift;
        (if owner < self.count { owner } else { owner - self.count }, turn * TOGETHER as u32 + at)
    }

    /// Returns how many places each owner has for `width` features.
    pub fn places(self, width: usize) -> usize {
        if self.count == 1 { width } else { width.div_ceil(TOGETHER * self.count) * TOGETHER }
    }
}

/// Places, in as few bytes as they take.
pub enum Places {
    Narrow(Vec<u16>),
    Wide(Vec<u32>),
}

impl Places {
    fn of(places: impl ExactSizeIterator<Item = u32>, most: usize) -> Places {
        if most <= 1 << 16 { Places::Narrow(places.map(|place| place as u16).collect()) } else { Places::Wide(places.collect()) }
    }
}

/// Asks for all lines of the cache that a slice lies in.
fn fetch<T>(items: &[T]) {
    let start = items.as_ptr() as *const u8;
    (0..size_of_val(items)).step_by(64).for_each(|at| prefetch_near(start.wrapping_add(at)));
}

impl Places {
    /// Asks for one of so many equal parts.
    fn fetch(&self, part: usize, parts: usize) {
        fn part_of<T>(items: &[T], part: usize, parts: usize) -> &[T] {
            let size = items.len().div_ceil(parts).max(1);
            items.chunks(size).nth(part).unwrap_or(&[])
        }
        match self {
            Places::Narrow(places) => fetch(part_of(places, part, parts)),
            Places::Wide(places) => fetch(part_of(places, part, parts)),
        }
    }
}

impl BatchLists {
    /// Asks for what one of the threads reads.
    pub fn fetch(&self, owner: usize) {
        let own = &self.owned[owner];
        fetch(&own.features);
        fetch(&own.starts);
        own.places.fetch(0, 1);
        self.places.fetch(owner, self.owned.len());
        fetch(&self.starts);
    }
}

/// A place, as a number that counts things in memory.
pub trait Place: Copy + Sync {
    fn at(self) -> usize;
}

impl Place for u16 {
    #[inline(always)]
    fn at(self) -> usize {
        self as usize
    }
}

impl Place for u32 {
    #[inline(always)]
    fn at(self) -> usize {
        self as usize
    }
}

/// The lists of one batch.
pub struct BatchLists {
    /// Where each row's entries begin among `places`, and their number.
    pub starts: Vec<u32>,
    /// Row after row, the place of each entry's feature among those of the batch: the first owner's, then the next one's.
    pub places: Places,
    pub owned: Vec<OwnedLists>,
}

/// The part of one owner.
pub struct OwnedLists {
    /// The features of the batch, each once, by their places among the owner's.
    pub features: Vec<u32>,
    /// What an integer of their sums stands for, where that differs.
    pub units: Vec<f64>,
    /// Where each row's entries of these features begin among `places`, and their number.
    pub starts: Vec<u32>,
    /// Row after row, the places of these entries in `features`.
    pub places: Places,
    /// The values of the entries in units of their features, where rows have values.
    pub values: Vec<f64>,
}

/// What makes lists, one batch after the other.
pub struct ListMaker<'p, 'a> {
    csr: &'p Csr<'a>,
    owners: Owners,
    feature_scale: &'p FeatureScale,
    /// What sums are scaled by.
    scale: f64,
    /// Of each feature `base` and its place among those of the batch that its owner has; less than `base` where the batch has not had it yet.
    seen: Vec<u32>,
    base: u32,
    /// Of each entry its owner, and the place there.
    entries: Vec<(u32, u32)>,
    owned: Vec<Owned>,
}

/// What becomes an owner's part.
#[derive(Default)]
struct Owned {
    features: Vec<u32>,
    units: Vec<f64>,
    starts: Vec<u32>,
    places: Vec<u32>,
    values: Vec<f64>,
}

impl<'p, 'a> ListMaker<'p, 'a> {
    /// Makes room for `width` features.
    pub fn new(csr: &'p Csr<'a>, width: usize, owners: Owners, feature_scale: &'p FeatureScale, scale: f64) -> Self {
        let owned = (0..owners.count).map(|_| Owned::default()).collect();
        ListMaker { csr, owners, feature_scale, scale, seen: pages::zeroed(width), base: 1, entries: vec![], owned }
    }

    /// Makes the lists of a batch of `rows`, which has fewer than 2^32 entries.
    pub fn lists(&mut self, rows: &[usize]) -> BatchLists {
        self.begin(rows);
        let mut starts = Vec::with_capacity(rows.len() + 1);
        for (i, number) in rows.iter().enumerate() {
            let row = self.csr.row(*number);
            if let Some(next) = rows.get(i + 1) {
                self.csr.row(*next).fetch(&self.seen, 1);
            }
            starts.push(self.entries.len() as u32);
            self.owned.iter_mut().for_each(|own| own.starts.push(own.places.len() as u32));
            for (j, key) in row.keys.iter().enumerate() {
                let (owner, feature) = self.owners.of(*key);
                let (own, seen) = (&mut self.owned[owner], &mut self.seen[*key as usize]);
                if *seen < self.base {
                    *seen = self.base + own.features.len() as u32;
                    own.features.push(feature);
                    if self.feature_scale.inverse.is_some() {
                        own.units.push(1.0 / (self.scale * self.feature_scale.inverse(*key as usize)));
                    }
                }
                let place = *seen - self.base;
                self.entries.push((owner as u32, place));
                own.places.push(place);
                if let Some(values) = row.values {
                    own.values.push(values[j] as f64 * self.feature_scale.inverse(*key as usize));
                }
            }
        }
        starts.push(self.entries.len() as u32);
        self.end(starts)
    }

    /// Forgets the batch before.
    fn begin(&mut self, rows: &[usize]) {
        self.base += self.owned.iter().map(|own| own.features.len()).max().unwrap_or(0) as u32;
        let entries: usize = rows.iter().map(|i| self.csr.row(*i).keys.len()).sum();
        if self.base as usize + entries > u32::MAX as usize {
            self.seen.fill(0);
            self.base = 1;
        }
        self.entries.clear();
        for own in &mut self.owned {
            own.features.clear();
            own.units.clear();
            own.starts.clear();
            own.places.clear();
            own.values.clear();
        }
    }

    /// Makes the lists of what has been noted.
    fn end(&mut self, starts: Vec<u32>) -> BatchLists {
        let mut first = vec![0; self.owners.count + 1];
        for (owner, own) in self.owned.iter_mut().enumerate() {
            first[owner + 1] = first[owner] + own.features.len() as u32;
            own.starts.push(own.places.len() as u32);
        }
        let all = first[self.owners.count] as usize;
        let part = |own: &Owned| OwnedLists {
            features: own.features.clone(),
            units: own.units.clone(),
            starts: own.starts.clone(),
            places: Places::of(own.places.iter().copied(), own.features.len()),
            values: own.values.clone(),
        };
        BatchLists {
            starts,
            places: Places::of(self.entries.iter().map(|(owner, place)| first[*owner as usize] + place), all),
            owned: self.owned.iter().map(part).collect(),
        }
    }
}
