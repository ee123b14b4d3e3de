package jinja

import (
	"slices"
	"strconv"
	"strings"
)

func init() {
	for name, f := range map[string]builtin{
		"list":       func(it *interp, v any, a args) any { return it.list(slices.Clone(it.iterate(v))) },
		"first":      func(it *interp, v any, a args) any { return it.end(v, 0) },
		"last":       func(it *interp, v any, a args) any { return it.end(v, -1) },
		"reverse":    reverse,
		"join":       joinFilter,
		"items":      items,
		"sort":       sortFilter,
		"dictsort":   dictSort,
		"unique":     unique,
		"groupby":    groupBy,
		"map":        mapFilter,
		"select":     func(it *interp, v any, a args) any { return it.choose(v, a, false, true) },
		"reject":     func(it *interp, v any, a args) any { return it.choose(v, a, false, false) },
		"selectattr": func(it *interp, v any, a args) any { return it.choose(v, a, true, true) },
		"rejectattr": func(it *interp, v any, a args) any { return it.choose(v, a, true, false) },
		"min":        func(it *interp, v any, a args) any { return it.extreme(v, a, "<") },
		"max":        func(it *interp, v any, a args) any { return it.extreme(v, a, ">") },
		"sum":        sum,
		"batch":      batch,
		"slice":      sliceFilter,
	} {
		filters[name] = f
	}
}

func (it *interp) end(v any, i int64) any {
	items := it.iterate(v)
	if at, ok := place(i, len(items)); ok {
		return items[at]
	}
	return missing("the sequence is empty")
}

func reverse(it *interp, v any, a args) any {
	items := slices.Clone(it.iterate(v))
	slices.Reverse(items)
	l := it.list(items)
	if _, ok := v.(string); ok {
		return it.join(l.Items, Text{})
	}
	return l
}

func joinFilter(it *interp, v any, a args) any {
	p := a.bind(it, "join", "d? attribute?")
	items := it.iterate(v)
	if key := p.or(1, nil); key != nil {
		items = it.attributes(items, key, nil)
	}
	return it.join(items, it.printed(p.or(0, "")))
}

func items(it *interp, v any, a args) any {
	switch v := v.(type) {
	case *Dict:
		return it.pairs(v)
	case *undefined:
		return &List{}
	}
	fail("items wants a dict, not %s", typeName(v))
	return nil
}

func (it *interp) pairs(d *Dict) *List {
	l := &List{}
	for i, k := range d.keys {
		it.alloc(4 * listItem)
		l.Items = append(l.Items, tuple(k, d.values[i]))
	}
	return l
}

// attribute follows a path of names and numbers with dots between them, as
// filters that take an attribute do.
func (it *interp) attribute(v, path any) any {
	if i, ok := path.(int64); ok {
		return it.item(v, i)
	}
	for part := range strings.SplitSeq(it.text(path), ".") {
		it.step(1)
		it.alloc(len(part))
		if i, err := strconv.ParseInt(part, 10, 64); err == nil {
			v = it.item(v, i)
		} else {
			v = it.item(v, part)
		}
	}
	return v
}

// attributes returns an attribute of each, or other where one lacks it, if
// other is not nil.
func (it *interp) attributes(from []any, path, other any) []any {
	l := it.list(make([]any, len(from)))
	for i, v := range from {
		l.Items[i] = it.attribute(v, path)
		if _, ok := l.Items[i].(*undefined); ok && other != nil {
			l.Items[i] = other
		}
	}
	return l.Items
}

// sortKeys returns what to compare the items by.
func (it *interp) sortKeys(from []any, path any, caseSensitive bool) []any {
	keys := it.list(slices.Clone(from)).Items
	if path != nil {
		keys = it.attributes(from, path, nil)
	}
	for i, k := range keys {
		if t, ok := textOf(k); ok && !caseSensitive {
			it.alloc(len(t.s))
			keys[i] = strings.ToLower(t.s)
		}
	}
	return keys
}

// sorted is a stable sort by keys.
func (it *interp) sorted(from, keys []any, reverse bool) []any {
	it.alloc(listItem * len(from))
	order := make([]int, len(from))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		if reverse {
			i, j = j, i
		}
		return it.compare("<", keys[i], keys[j])
	})
	out := make([]any, len(from))
	for i, at := range order {
		out[i] = from[at]
	}
	return out
}

func sortFilter(it *interp, v any, a args) any {
	p := a.bind(it, "sort", "reverse? case_sensitive? attribute?")
	from := it.iterate(v)
	attrs, ok := p.or(2, nil).(string)
	if !ok || !strings.Contains(attrs, ",") {
		keys := it.sortKeys(from, p.or(2, nil), p.isTrue(1))
		return it.list(it.sorted(from, keys, p.isTrue(0)))
	}
	several := make([]any, len(from)) // several attributes, the first counts most
	for i := range several {
		several[i] = &List{}
	}
	for path := range strings.SplitSeq(attrs, ",") {
		for i, k := range it.sortKeys(from, path, p.isTrue(1)) {
			l := several[i].(*List)
			l.Items = append(l.Items, k)
		}
	}
	return it.list(it.sorted(from, several, p.isTrue(0)))
}

func dictSort(it *interp, v any, a args) any {
	p := a.bind(it, "dictsort", "case_sensitive? by? reverse?")
	d, ok := v.(*Dict)
	if !ok {
		fail("dictsort wants a dict, not %s", typeName(v))
	}
	at := map[string]int64{"key": 0, "value": 1}
	by, ok := at[p.text(1, "key")]
	if !ok {
		fail("dictsort knows key and value, not %s", p.text(1, ""))
	}
	pairs := it.pairs(d).Items
	return it.list(it.sorted(pairs, it.sortKeys(pairs, by, p.isTrue(0)), p.isTrue(2)))
}

func unique(it *interp, v any, a args) any {
	p := a.bind(it, "unique", "case_sensitive? attribute?")
	from := it.iterate(v)
	seen := map[any]bool{}
	var kept []any
	for i, k := range it.sortKeys(from, p.or(1, nil), p.isTrue(0)) {
		it.hash(k)
		if h := hash(k); !seen[h] {
			it.alloc(2 * listItem)
			seen[h] = true
			kept = append(kept, from[i])
		}
	}
	return it.list(kept)
}

func groupBy(it *interp, v any, a args) any {
	p := a.bind(it, "groupby", "attribute default? case_sensitive?")
	from := it.iterate(v)
	keys := it.attributes(from, p.values[0], p.or(1, nil))
	folded := it.sortKeys(keys, nil, p.isTrue(2))
	order := it.sorted(it.indices(len(from)), folded, false)
	var groups []any
	for n, i := range order {
		i := int(i.(int64))
		if n == 0 || !it.equal(folded[i], folded[order[n-1].(int64)]) {
			it.alloc(4 * listItem)
			groups = append(groups, tuple(keys[i], &List{}))
		}
		members := groups[len(groups)-1].(*List).Items[1].(*List)
		it.alloc(listItem)
		members.Items = append(members.Items, from[i])
	}
	return it.list(groups)
}

func (it *interp) indices(n int) []any {
	l := it.list(make([]any, n))
	for i := range l.Items {
		l.Items[i] = int64(i)
	}
	return l.Items
}

// given returns the items for map and select: none of a value that is false.
func (it *interp) given(v any) []any {
	if !isTrue(v) {
		return nil
	}
	return it.iterate(v)
}

func mapFilter(it *interp, v any, a args) any {
	from := it.given(v)
	if len(a.pos) == 0 {
		p := a.bind(it, "map", "attribute default?")
		return &List{Items: it.attributes(from, p.values[0], p.or(1, nil))}
	}
	name := it.text(a.pos[0])
	it.read(len(name))
	f := builtinOf(filters, name)
	if f == nil {
		fail("unknown filter %s", name)
	}
	out := it.list(make([]any, len(from)))
	a.pos = a.pos[1:]
	for i, x := range from {
		it.step(1)
		out.Items[i] = f(it, x, a)
	}
	return out
}

// choose keeps the items, or those with the attribute, for which a test gives want.
func (it *interp) choose(v any, a args, attr, want bool) any {
	var path any
	if attr {
		if len(a.pos) == 0 {
			fail("the name of an attribute is missing")
		}
		path, a.pos = a.pos[0], a.pos[1:]
	}
	test := builtin(func(it *interp, v any, a args) any { return isTrue(v) })
	if len(a.pos) > 0 {
		name := it.text(a.pos[0])
		it.read(len(name))
		if test = builtinOf(tests, name); test == nil {
			fail("unknown test %s", name)
		}
		a.pos = a.pos[1:]
	}
	var kept []any
	for _, x := range it.given(v) {
		it.step(1)
		of := x
		if attr {
			of = it.attribute(x, path)
		}
		if isTrue(test(it, of, a)) == want {
			kept = append(kept, x)
		}
	}
	return it.list(kept)
}

func (it *interp) extreme(v any, a args, op string) any {
	p := a.bind(it, "min or max", "case_sensitive? attribute?")
	from := it.iterate(v)
	keys := it.sortKeys(from, p.or(1, nil), p.isTrue(0))
	if len(from) == 0 {
		return missing("the sequence is empty")
	}
	best := 0
	for i := range from {
		if it.holds(op, keys[i], keys[best]) {
			best = i
		}
	}
	return from[best]
}

func sum(it *interp, v any, a args) any {
	p := a.bind(it, "sum", "attribute? start?")
	from := it.iterate(v)
	if path := p.or(0, nil); path != nil {
		from = it.attributes(from, path, nil)
	}
	total := p.or(1, int64(0))
	for _, x := range from {
		it.step(1)
		total = it.binary("+", total, x)
	}
	return total
}

func batch(it *interp, v any, a args) any {
	p := a.bind(it, "batch", "linecount fill_with?")
	n := p.int(0, 0)
	if n < 1 {
		fail("batch wants a positive count")
	}
	var rows []any
	for row := range slices.Chunk(it.iterate(v), n) {
		row := it.list(slices.Clone(row))
		if fill := p.or(1, nil); fill != nil && len(row.Items) < n {
			it.repeatCount(listItem, n-len(row.Items))
			for len(row.Items) < n {
				row.Items = append(row.Items, fill)
			}
		}
		rows = append(rows, row)
	}
	return it.list(rows)
}

func sliceFilter(it *interp, v any, a args) any {
	p := a.bind(it, "slice", "slices fill_with?")
	n := p.int(0, 0)
	if n < 1 {
		fail("slice wants a positive count")
	}
	it.repeatCount(2*listItem, n)
	from := it.iterate(v)
	each, longer := len(from)/n, len(from)%n
	var columns []any
	for i := range n {
		size := each
		if i < longer {
			size++
		}
		column := it.list(slices.Clone(from[:size]))
		from = from[size:]
		if fill := p.or(1, nil); fill != nil && i >= longer {
			column.Items = append(column.Items, fill)
		}
		columns = append(columns, column)
	}
	return &List{Items: columns}
}
