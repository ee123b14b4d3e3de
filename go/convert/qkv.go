package convert

import "fmt"

// groupsOf returns the number of groups of queries that share a key and a value.
func groupsOf(c *config) int {
	if c.flag("multi_query") && !c.flag("new_decoder_architecture") {
		return 1
	}
	return c.countOr("num_kv_heads n_head_kv num_key_value_heads", 1)
}

// groups takes rows apart that lie by groups: the queries of one, its key, its value.
var groups op = func(c *config, in []view) ([]view, error) {
	v := in[0]
	n, h := uint64(max(c.countOr("num_key_value_heads", groupsOf(c)), 1)), uint64(c.heads())
	rows, each := v.rows()
	if h%n != 0 || rows%(h+2*n) != 0 {
		return nil, fmt.Errorf("%d rows for %d heads in %d groups", rows, h, n)
	}
	d, queries := rows/(h+2*n), h/n
	part := func(from, count uint64) (view, error) {
		shape := append([]uint64{n * count * d}, v.shape[1:]...)
		return v.strided(from*d*each, dim{n, (queries + 2) * d * each}, dim{count * d, each}, dim{each, 1}).as(shape...)
	}
	var out []view
	for _, p := range [][2]uint64{{0, queries}, {queries, 1}, {queries + 1, 1}} {
		made, err := part(p[0], p[1])
		if err != nil {
			return nil, err
		}
		out = append(out, made)
	}
	return out, nil
}

// packed takes queries, keys and values apart that lie one below the other.
var packed op = func(c *config, in []view) ([]view, error) {
	v := in[0]
	rows, each := v.rows()
	h, n := uint64(max(c.heads(), 1)), uint64(c.headsKV())
	d := rows / (h + 2*n)
	if rows != d*(h+2*n) {
		return nil, fmt.Errorf("%d rows for %d heads and %d of keys", rows, h, n)
	}
	var out []view
	at := uint64(0)
	for _, count := range []uint64{h * d, n * d, n * d} {
		shape := append([]uint64{count}, v.shape[1:]...)
		part, err := v.strided(at*each, dim{count, each}, dim{each, 1}).as(shape...)
		if err != nil {
			return nil, err
		}
		out, at = append(out, part), at+count
	}
	return out, nil
}

// threes brings rows of queries, keys and values, which lie by heads, in the order of queries, keys and values.
var threes = one(func(c *config, v view) (view, error) {
	rows, each := v.rows()
	h := uint64(max(c.heads(), 1))
	d := rows / (3 * h)
	if rows != 3*h*d {
		return view{}, fmt.Errorf("%d rows for queries, keys and values of %d heads", rows, h)
	}
	return v.strided(0, dim{3, d * each}, dim{h, 3 * d * each}, dim{d, each}, dim{each, 1}).as(v.shape...)
})
