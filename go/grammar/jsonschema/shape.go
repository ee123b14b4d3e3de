package jsonschema

import (
	"slices"
	"strconv"

	"github.com/quern-llm/quern/go/grammar"
)

// kinds is a set of kinds of values.
type kinds uint8

const (
	kNull kinds = 1 << iota
	kTrue
	kFalse
	kNumber
	kString
	kArray
	kObject
	kAll = 1<<iota - 1
)

// A literal is a schema, or what it does not allow.
type literal struct {
	s   *schema
	not bool
}

// A set is schemas that all hold, by their ids. Those that allow all are left out.
type set []literal

func (s set) with(more ...literal) set {
	out := append(slices.Clone(s), more...)
	out = slices.DeleteFunc(out, func(l literal) bool { is, ok := l.s.v.bool(); return ok && is != l.not })
	slices.SortFunc(out, func(a, b literal) int {
		if a.s.id != b.s.id {
			return a.s.id - b.s.id
		}
		if a.not == b.not {
			return 0
		} else if b.not {
			return -1
		}
		return 1
	})
	return slices.Compact(out)
}

// key names the set.
func (s set) key() string {
	b := make([]byte, 0, 5*len(s))
	for _, l := range s {
		b = strconv.AppendInt(b, int64(l.s.id), 36)
		if l.not {
			b = append(b, '!')
		}
		b = append(b, ' ')
	}
	return string(b)
}

// A shape is values described kind by kind: what is said about one kind binds only the
// values of that kind. A schema is an alternative of shapes.
type shape struct {
	kinds kinds
	about kinds // kinds about which something is said
	num   numbers
	str   texts
	arr   arrays
	obj   objects
	loose bool // other schemas may have evaluated more than is told here
	// refused is why values of a kind can't be decided, if they remain.
	refused map[kinds]*Error
}

func top() *shape {
	return &shape{kinds: kAll, str: texts{max: -1}, arr: arrays{max: -1}, obj: objects{max: -1}}
}

// only returns a shape of values of some kinds.
func only(k kinds) *shape {
	s := top()
	s.kinds = k
	return s
}

// arrays is what arrays may be.
type arrays struct {
	apps     []arrayApp
	min, max int // max -1: any
	contains []contains
	unique   *schema // that says so; nil: none does
}

// An arrayApp is what one schema says about elements: the first ones have schemas of their
// own, the others rest, or any where it is nil.
type arrayApp struct {
	prefix []literal
	rest   *literal
	// silent: it does not count as having evaluated elements, since it is within a not.
	silent bool
}

type contains struct {
	lit      literal
	min, max int
	silent   bool
}

// objects is what objects may be.
type objects struct {
	apps     []objectApp
	required []string
	min, max int
	names    set // schemas of the names
	some     []someMember
	counts   *schema
}

// An objectApp is what one schema says about members.
type objectApp struct {
	props    []prop
	at       map[string]int // where each name is in props, if they are many; nil: they are few, or names may repeat
	patterns []pattern
	rest     *literal // of other members; nil: any
	silent   bool
}

// A someMember is that an object has some member of a kind.
type someMember struct {
	name   grammar.Expr // what its name says; nil: anything
	value  *literal     // nil: any
	denied *Error       // which it is, if it can't be decided
}

type prop struct {
	name string
	lit  literal
}

type pattern struct {
	source string
	expr   grammar.Expr
	lit    literal
	work   *grammar.Work // of matching
}

// and returns the values that are in both, nil if there are none.
func (a *shape) and(b *shape) *shape {
	out := &shape{kinds: a.kinds & b.kinds, about: a.about | b.about, num: a.num, str: a.str, arr: a.arr, obj: a.obj, loose: a.loose || b.loose}
	if out.kinds == 0 {
		return nil
	}
	out.num.merge(b.num)
	out.str.merge(b.str)
	out.arr.merge(&b.arr)
	out.obj.merge(&b.obj)
	if len(a.refused)+len(b.refused) > 0 {
		out.refused = map[kinds]*Error{}
		for _, s := range []*shape{b, a} {
			for k, err := range s.refused {
				out.refused[k] = err
			}
		}
	}
	if out.kinds&kNumber != 0 && !out.num.settle() {
		out.kinds &^= kNumber
	}
	if out.kinds&kString != 0 && !out.str.settle() {
		out.kinds &^= kString
	}
	if a := out.arr; a.max >= 0 && a.min > a.max {
		out.kinds &^= kArray
	}
	if o := out.obj; o.max >= 0 && max(o.min, len(o.required)) > o.max {
		out.kinds &^= kObject
	}
	if out.kinds == 0 {
		return nil
	}
	return out
}

func (a *arrays) merge(b *arrays) {
	a.apps = slices.Concat(a.apps, b.apps)
	a.contains = slices.Concat(a.contains, b.contains)
	a.min, a.max = max(a.min, b.min), least(a.max, b.max)
	if a.unique == nil {
		a.unique = b.unique
	}
}

func (o *objects) merge(b *objects) {
	o.apps = slices.Concat(o.apps, b.apps)
	if len(b.required) > 0 {
		had := map[string]bool{}
		for _, name := range o.required {
			had[name] = true
		}
		o.required = slices.Clone(o.required)
		for _, name := range b.required {
			if !had[name] {
				had[name] = true
				o.required = append(o.required, name)
			}
		}
	}
	o.min, o.max = max(o.min, b.min), least(o.max, b.max)
	o.names = o.names.with(b.names...)
	o.some = slices.Concat(o.some, b.some)
	if o.counts == nil {
		o.counts = b.counts
	}
}

// at returns what holds of the element at a position.
func (a *arrays) at(i int) set {
	var out set
	for _, app := range a.apps {
		if i < len(app.prefix) {
			out = append(out, app.prefix[i])
		} else if app.rest != nil {
			out = append(out, *app.rest)
		}
	}
	return out.with()
}

// prefix is how many elements have positions of their own.
func (a *arrays) prefix() int {
	n := 0
	for _, app := range a.apps {
		n = max(n, len(app.prefix))
	}
	return n
}

// size is the number of things that are said of values.
func (a *shape) size() int {
	return 1 + len(a.num.in) + len(a.str.in) + len(a.str.exprs) + len(a.arr.apps) + len(a.arr.contains) + len(a.obj.apps) + len(a.obj.required) + len(a.obj.names)
}

// of returns what holds of the member of a name.
func (o *objects) of(name string) set {
	var out set
	for _, app := range o.apps {
		out = append(out, app.of(name)...)
	}
	return out.with()
}

func (app *objectApp) of(name string) set {
	var out set
	if app.at == nil {
		for _, p := range app.props {
			if p.name == name {
				out = append(out, p.lit)
			}
		}
	} else if i, ok := app.at[name]; ok {
		out = append(out, app.props[i].lit)
	}
	for _, p := range app.patterns {
		if grammar.Match(nil, p.expr, name, p.work) {
			out = append(out, p.lit)
		}
	}
	if out == nil && app.rest != nil {
		out = set{*app.rest}
	}
	return out
}
