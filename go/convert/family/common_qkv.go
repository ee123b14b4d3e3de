package family

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// groupsOf returns the number of groups of queries that share a key and a value.
func groupsOf(c *hf.Config) int {
	if c.Flag("multi_query") && !c.Flag("new_decoder_architecture") {
		return 1
	}
	return c.CountOr("num_kv_heads n_head_kv num_key_value_heads", c.Heads())
}

// groups splits a matrix whose rows are, for each group, its queries, its key and its value.
var groups lang.Op = func(c *hf.Config, in []lang.View) ([]lang.View, error) {
	v := in[0]
	n, h := uint64(max(groupsOf(c), 1)), uint64(c.Heads())
	rows, each := v.Rows()
	if h%n != 0 || rows%(h+2*n) != 0 {
		return nil, fmt.Errorf("%d rows for %d heads in %d groups", rows, h, n)
	}
	d, queries := rows/(h+2*n), h/n
	part := func(from, count uint64) (lang.View, error) {
		shape := append([]uint64{n * count * d}, v.Shape[1:]...)
		return v.Strided(from*d*each, lang.Dim{n, (queries + 2) * d * each}, lang.Dim{count * d, each},
			lang.Dim{each, 1}).As(shape...)
	}
	var out []lang.View
	for _, p := range [][2]uint64{{0, queries}, {queries, 1}, {queries + 1, 1}} {
		made, err := part(p[0], p[1])
		if err != nil {
			return nil, err
		}
		out = append(out, made)
	}
	return out, nil
}

// paired reorders queries and keys as lang.Permute does, and leaves values as they are.
var paired = lang.Each3(lang.Permute((*hf.Config).Heads), lang.Permute((*hf.Config).HeadsKV), nil)

// packed splits a matrix whose rows are first all queries, then all keys, then all values.
var packed lang.Op = func(c *hf.Config, in []lang.View) ([]lang.View, error) {
	v := in[0]
	rows, each := v.Rows()
	h, n := uint64(max(c.Heads(), 1)), uint64(c.HeadsKV())
	d := rows / (h + 2*n)
	if rows != d*(h+2*n) {
		return nil, fmt.Errorf("%d rows for %d heads and %d of keys", rows, h, n)
	}
	var out []lang.View
	at := uint64(0)
	for _, count := range []uint64{h * d, n * d, n * d} {
		shape := append([]uint64{count}, v.Shape[1:]...)
		part, err := v.Strided(at*each, lang.Dim{count, each}, lang.Dim{each, 1}).As(shape...)
		if err != nil {
			return nil, err
		}
		out, at = append(out, part), at+count
	}
	return out, nil
}

// threes reorders a matrix whose rows are, for each head, a query, a key and a value: first come all queries, then all
// keys, then all values.
var threes = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	rows, each := v.Rows()
	h := uint64(max(c.Heads(), 1))
	d := rows / (3 * h)
	if rows != 3*h*d {
		return lang.View{}, fmt.Errorf("%d rows for queries, keys and values of %d heads", rows, h)
	}
	return v.Strided(0, lang.Dim{3, d * each}, lang.Dim{h, 3 * d * each}, lang.Dim{d, each},
		lang.Dim{each, 1}).As(v.Shape...)
})
