package convert

import (
	"fmt"
	"math"
	"slices"
)

// widths sets how wide the feed-forward networks are, which config.json does not say: one number, or one for each layer.
func widths(d *draft, k *keys) {
	var all []uint32
	for il := range d.layers {
		t := d.target(fmt.Sprintf("blk.%d.ffn_up.weight", il))
		if t == nil || len(t.dims) != 2 || t.dims[1] > math.MaxUint32 {
			k.fail("layer %d has no matrix ffn_up", il)
			return
		}
		all = append(all, uint32(t.dims[1]))
	}
	if len(slices.Compact(slices.Clone(all))) == 1 {
		k.set("feed_forward_length", all[0])
		return
	}
	k.ns("feed_forward_length", all)
}

// rank sets a key to the rows of a tensor in each of its parts.
func rank(d *draft, k *keys, key, name string, parts uint64) {
	t := d.target(name)
	if t == nil || len(t.dims) != 2 {
		k.fail("there is no matrix %s, of which %s is read", name, key)
		return
	}
	k.n(key, int(t.dims[1]/parts))
}
