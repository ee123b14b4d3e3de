package pdf

// Text returns the text of each page. A file without any has empty pages. Errors are an Error, a LargeError, or one of Unpack.
func Text(data []byte, l Limits) (pages []string, err error) {
	f, err := open(data, l)
	if err != nil {
		return nil, err
	}
	root := f.dict(f.root)
	list := f.pages(root)
	switch {
	case f.err != nil:
		return nil, f.err
	case len(list) == 0:
		return nil, Error("damaged: no pages are found in it")
	case len(list) > l.Pages:
		return nil, tooMany(l.Pages)
	}
	left, known, unknown := l.Text, 0, 0
	for _, p := range list {
		w := &writer{f: f, left: left}
		if err := w.page(p); err != nil {
			return nil, err
		}
		if f.err != nil {
			return nil, f.err
		}
		pages = append(pages, w.text())
		known, unknown = known+w.known, unknown+w.unknown
		left -= len(pages[len(pages)-1])
	}
	if known == 0 && unknown > 0 {
		return nil, ErrFonts
	}
	return pages, nil
}

// A sheet is a page with what it inherits. Both are as they stand, which is a reference mostly: what it names is read when the
// turn of the page comes.
type sheet struct{ page, resources any }

// pages returns the pages in their order.
func (f *file) pages(root dict) (all []sheet) {
	seen := map[int]bool{}
	again := func(v any) bool {
		r, ok := v.(ref)
		if !ok {
			return false
		}
		was := seen[r.num]
		seen[r.num] = true
		return was
	}
	var walk func(v, resources any, depth int)
	walk = func(v, resources any, depth int) {
		if again(v) || depth > maxDepth || len(all) > f.limits.Pages || f.charge(perObject) != nil {
			return
		}
		d := f.dict(v)
		if d == nil {
			return
		}
		kids, ok := f.get(d["Kids"]).(array)
		if !ok {
			if f.charge(weight(v)) == nil {
				all = append(all, sheet{v, resources})
			}
			return
		}
		if again(d["Kids"]) {
			return
		}
		if own := d["Resources"]; f.dict(own) != nil && f.charge(weight(own)) == nil {
			resources = own
		}
		for _, k := range kids {
			walk(k, resources, depth+1)
		}
	}
	if root["Pages"] != nil {
		walk(root["Pages"], nil, 0)
	}
	return all
}

// page writes a page: what it shows, and then what fields of forms on it show.
func (w *writer) page(p sheet) error {
	var content []byte
	page := w.f.dict(p.page)
	resources := w.f.dict(page["Resources"])
	if resources == nil {
		resources = w.f.dict(p.resources)
	}
	parts := array{page["Contents"]}
	if list, ok := w.f.get(page["Contents"]).(array); ok {
		parts = list
	}
	for _, one := range parts {
		s, ok := w.f.get(one).(*stream)
		if !ok {
			continue
		}
		data, err := w.f.decode(s)
		if err != nil {
			return err
		}
		if content = append(append(content, data...), '\n'); len(content) > maxStream {
			return tooLong
		}
	}
	if err := w.run(content, resources, identity, 0); err != nil {
		return err
	}
	for i, one := range w.f.array(page["Annots"]) {
		if i > maxFields {
			break
		}
		if err := w.field(w.f.dict(one), resources); err != nil {
			return err
		}
	}
	return nil
}

// maxFields bounds annotations of a page.
const maxFields = 1 << 14

// field writes what a field of a form shows.
func (w *writer) field(d dict, resources dict) error {
	if w.f.get(d["Subtype"]) != name("Widget") {
		return nil
	}
	look := w.f.get(w.f.dict(d["AP"])["N"])
	if states, ok := look.(dict); ok { // such as those of a box to tick
		state, _ := w.f.get(d["AS"]).(name)
		look = w.f.get(states[state])
	}
	s, ok := look.(*stream)
	if !ok {
		return nil
	}
	at := identity
	if r := w.f.array(d["Rect"]); len(r) == 4 {
		at[4], at[5] = w.f.number(r[0], 0), w.f.number(r[1], 0)
	}
	return w.form(s, resources, at, 0)
}
