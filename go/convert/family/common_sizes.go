package family

import (
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/convert/lang"
)

// widths sets the width of the feed-forward networks, which config.json does not say: one number, or a list with one
// for each layer.
func widths(d *lang.Draft, k *lang.Keys) {
	var all []uint32
	for il := range d.Layers {
		t := d.Target(fmt.Sprintf("blk.%d.ffn_up.weight", il))
		if t == nil || len(t.Dims) != 2 || t.Dims[1] > math.MaxUint32 {
			k.Fail("layer %d has no matrix ffn_up", il)
			return
		}
		all = append(all, uint32(t.Dims[1]))
	}
	if len(slices.Compact(slices.Clone(all))) == 1 {
		k.Set("feed_forward_length", all[0])
		return
	}
	k.Ns("feed_forward_length", all)
}

// rank sets a key to the number of a tensor's rows, divided by parts.
func rank(d *lang.Draft, k *lang.Keys, key, name string, parts uint64) {
	t := d.Target(name)
	if t == nil || len(t.Dims) != 2 {
		k.Fail("there is no matrix %s, of which %s is read", name, key)
		return
	}
	k.N(key, int(t.Dims[1]/parts))
}
