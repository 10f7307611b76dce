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
        let rows = self.firsts[at].row + at..self.firsts[at + 1].row + at + 1;
        if self.owned.len() == 1 {
            let BatchLists { starts, places } = self.batch(at);
            return OwnedLists { features: &own.features[feature..end], units: own.units.get(feature..end).unwrap_or(&[]), starts, places, values: own.values.get(entry..last).unwrap_or(&[]) };
        }
        OwnedLists {
            features: &own.features[feature..end],
            units: own.units.get(feature..end).unwrap_or(&[]),
            starts: &own.starts[rows],
            places: &own.places[entry..last],
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

/// What makes lists, one group of batches after the other.
pub struct ListMaker<'p, 'a> {
    csr: &'p Csr<'a>,
    owners: Owners,
    feature_scale: &'p FeatureScale,
    /// What sums are scaled by.
    scale: f64,
    /// Of each feature `base` and its place among those of the batch that its owner has; less than `base` where the batch has not had it yet.
    seen: Vec<u32>,
    base: u32,
    /// Of each entry of a batch its owner, and the place there.
    entries: Vec<(u32, u32)>,
}

impl<'p, 'a> ListMaker<'p, 'a> {
    /// Makes room for `width` features.
    pub fn new(csr: &'p Csr<'a>, width: usize, owners: Owners, feature_scale: &'p FeatureScale, scale: f64) -> Self {
        ListMaker { csr, owners, feature_scale, scale, seen: pages::zeroed(width), base: 1, entries: vec![] }
    }

    /// Makes the lists of batches of `batch` of the `rows` each. A batch has fewer than 2^32 entries, and no more features than `P` counts.
    pub fn group<P: Place>(&mut self, rows: &[usize], batch: usize) -> ListGroup<P> {
        let entries: usize = rows.iter().map(|i| self.csr.row(*i).keys.len()).sum();
        let batches = rows.len().div_ceil(batch);
        let several = self.owners.count > 1;
        let (values, units) = (self.csr.has_values(), self.feature_scale.inverse.is_some());
        // A little more than an owner has when all have as many.
        let some = entries / self.owners.count + entries / 16;
        let room = |wanted: bool| if wanted { some } else { 0 };
        let owned = |_| OwnedGroup {
            features: pages::with_capacity(some),
            units: pages::with_capacity(room(units)),
            starts: Vec::with_capacity(if several { rows.len() + batches } else { 0 }),
            places: pages::with_capacity(room(several)),
            values: pages::with_capacity(room(values)),
            firsts: Vec::with_capacity(batches + 1),
        };
        let mut group = ListGroup {
            starts: Vec::with_capacity(rows.len() + batches),
            places: pages::with_capacity(entries),
            owned: (0..self.owners.count).map(owned).collect(),
            firsts: Vec::with_capacity(batches + 1),
        };
        let mut row = 0;
        for rows in rows.chunks(batch) {
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
        if self.base as usize + total > u32::MAX as usize {
            self.seen.fill(0);
            self.base = 1;
        }
        self.entries.resize(total, (0, 0));
        let several = self.owners.count > 1;
        let before: Vec<(usize, usize)> = group.owned.iter().map(|own| (own.features.len(), own.places.len())).collect();
        let mut rest = self.entries.as_mut_slice();
        for (i, number) in rows.iter().enumerate() {
            let row = self.csr.row(*number);
            if let Some(next) = rows.get(i + 1) {
                self.csr.row(*next).fetch(&self.seen, 1);
            }
            group.starts.push((total - rest.len()) as u32);
            let (entries, behind) = rest.split_at_mut(row.keys.len());
            rest = behind;
            if several {
                group.owned.iter_mut().zip(&before).for_each(|(own, before)| own.starts.push((own.places.len() - before.1) as u32));
            }
            for (entry, key) in entries.iter_mut().zip(row.keys) {
                let (owner, feature) = self.owners.of(*key);
                let (own, seen) = (&mut group.owned[owner], &mut self.seen[*key as usize]);
                if *seen < self.base {
                    *seen = self.base + (own.features.len() - before[owner].0) as u32;
                    own.features.push(feature);
                    if self.feature_scale.inverse.is_some() {
                        own.units.push(1.0 / (self.scale * self.feature_scale.inverse(*key as usize)));
                    }
                }
                let place = *seen - self.base;
                *entry = (owner as u32, place);
                if several {
                    own.places.push(P::of(place as usize));
                }
            }
            if let Some(values) = row.values {
                for ((key, x), (owner, _)) in row.keys.iter().zip(values).zip(&*entries) {
                    group.owned[*owner as usize].values.push(*x as f64 * self.feature_scale.inverse(*key as usize));
                }
            }
        }
        group.starts.push(total as u32);
        let (mut first, mut most) = (vec![0; self.owners.count], 0);
        let mut count = 0;
        for (owner, own) in group.owned.iter_mut().enumerate() {
            let features = (own.features.len() - before[owner].0) as u32;
            first[owner] = count;
            count += features;
            most = features.max(most);
            if several {
                own.starts.push((own.places.len() - before[owner].1) as u32);
            }
        }
        self.base += most;
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
