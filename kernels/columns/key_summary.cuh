// What the host is told of the keys of a column that is sorted for its borders.
#pragma once

namespace taiga {

// What the host is told of the keys.
struct KeySummary {  // shared with the host
    unsigned long long missing;  // how many values are
    unsigned long long differ;   // the bits in which keys differ
};

}  // namespace taiga
