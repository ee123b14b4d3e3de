package jinja

// functions are the global ones.
var functions map[string]native

func init() { // a composite literal would refer to itself, through calls
	functions = map[string]native{
		"range": func(it *interp, a args) any {
			p := a.bind(it, "range", "start stop? step?")
			start, stop, step := 0, p.int(0, 0), p.int(2, 1)
			if p.has(1) {
				start, stop = stop, p.int(1, 0)
			}
			if step == 0 {
				fail("the step of range is 0")
			}
			var items []any
			for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
				if len(items) == maxRange {
					fail("range has more than %d items: %w", maxRange, ErrLimit)
				}
				it.alloc(listItem)
				items = append(items, int64(i))
				if next := i + step; (next > i) != (step > 0) { // overflow
					break
				}
			}
			return &List{Items: items}
		},
		"dict": func(it *interp, a args) any {
			d := &Dict{}
			for _, v := range a.pos {
				it.update(d, v)
			}
			it.update(d, a.dict(it))
			return d
		},
		"namespace": func(it *interp, a args) any {
			return &namespace{functions["dict"](it, a).(*Dict)}
		},
	}
}

func (a args) dict(it *interp) *Dict {
	d := &Dict{}
	for i, name := range a.names {
		it.put(d, name, a.named[i])
	}
	return d
}

// update sets what a dict or a list of pairs holds.
func (it *interp) update(d *Dict, v any) {
	from, ok := v.(*Dict)
	if !ok {
		from = &Dict{}
		for _, item := range it.iterate(v) {
			kv := it.iterate(item)
			if len(kv) != 2 {
				fail("a dict is made of pairs")
			}
			it.put(from, kv[0], kv[1])
		}
	}
	for i, k := range from.keys {
		it.put(d, k, from.values[i])
	}
}
