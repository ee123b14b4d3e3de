package jinja

import (
	"math"
	"strings"
	"unicode/utf8"
)

// args are the values of a call's arguments.
type args struct {
	pos   []any
	names []string
	named []any
}

// native is a function of the interpreter.
type native func(it *interp, a args) any

// builtin is a filter, a test or a method: a native with the value it is of.
type builtin func(it *interp, v any, a args) any

func (it *interp) eval(e expr, sc *scope) any {
	defer it.enter()()
	it.step(1)
	switch e := e.(type) {
	case *constant:
		return e.value
	case *name:
		return it.lookup(sc, e.name)
	case *attrExpr:
		return it.attr(it.eval(e.x, sc), e.name)
	case *itemExpr:
		return it.item(it.eval(e.x, sc), it.eval(e.index, sc))
	case *sliceExpr:
		return it.slice(e, sc)
	case *callExpr:
		it.line = e.line
		return it.call(it.eval(e.fn, sc), it.args(e.args, sc))
	case *filterExpr:
		return e.fn(it, it.eval(e.x, sc), it.args(e.args, sc))
	case *testExpr:
		return isTrue(e.fn(it, it.eval(e.x, sc), it.args(e.args, sc))) != e.not
	case *condExpr:
		if isTrue(it.eval(e.test, sc)) {
			return it.eval(e.then, sc)
		}
		if e.otherwise == nil {
			return missing("the if without an else gave nothing")
		}
		return it.eval(e.otherwise, sc)
	case *notExpr:
		return !isTrue(it.eval(e.x, sc))
	case *logicExpr:
		if v := it.eval(e.x, sc); isTrue(v) == e.or {
			return v
		}
		return it.eval(e.y, sc)
	case *compareExpr:
		return it.comparison(e, sc)
	case *binaryExpr:
		return it.binary(e.op, it.eval(e.x, sc), it.eval(e.y, sc))
	case *concatExpr:
		var b builder
		for _, x := range e.items {
			part := it.printed(it.eval(x, sc))
			it.alloc(2 * len(part.s)) // the text grows by doubling
			b.add(it, part)
		}
		return b.value()
	case *signExpr:
		x := it.eval(e.x, sc)
		if f, ok := x.(float64); ok {
			return -f // 0 - f would lose the sign of zero
		}
		return it.binary("-", int64(0), x)
	case *plusExpr:
		return it.binary("+", int64(0), it.eval(e.x, sc))
	case *listExpr:
		l := it.list(it.evalAll(e.items, sc))
		l.tuple = e.tuple
		return l
	case *dictExpr:
		d := &Dict{}
		for i, k := range e.keys {
			it.put(d, it.eval(k, sc), it.eval(e.values[i], sc))
		}
		return d
	}
	return nil
}

func (it *interp) evalAll(es []expr, sc *scope) []any {
	vs := make([]any, len(es))
	for i, e := range es {
		vs[i] = it.eval(e, sc)
	}
	return vs
}

func (it *interp) args(e arguments, sc *scope) args {
	a := args{it.evalAll(e.pos, sc), e.names[:len(e.names):len(e.names)], it.evalAll(e.named, sc)}
	if e.star != nil {
		a.pos = append(a.pos, it.list(it.iterate(it.eval(e.star, sc))).Items...)
	}
	if e.starry != nil {
		d, ok := it.eval(e.starry, sc).(*Dict)
		if !ok {
			fail("** wants a dict")
		}
		it.alloc(2 * listItem * len(d.keys))
		for i, k := range d.keys {
			a.names = append(a.names, it.text(k))
			a.named = append(a.named, d.values[i])
		}
	}
	return a
}

// filterBlock applies the filters of a block to its text.
func (it *interp) filterBlock(e expr, v any, sc *scope) any {
	f, ok := e.(*filterExpr)
	if !ok {
		fail("a block takes filters and nothing else")
	}
	if f.x != nil {
		v = it.filterBlock(f.x, v, sc)
	}
	return f.fn(it, v, it.args(f.args, sc))
}

func (it *interp) call(fn any, a args) any {
	switch fn := fn.(type) {
	case native:
		return fn(it, a)
	case Func:
		if a.names != nil {
			fail("unexpected named argument %s", a.names[0])
		}
		a, some := a.allPlain()
		v, err := fn(a.pos)
		if err != nil {
			fail("%w", err)
		}
		if s, ok := v.(string); ok {
			it.alloc(len(s))
			if some {
				return Outside(s)
			}
		}
		return v
	case *macro:
		return it.callMacro(fn, a)
	case *loop:
		if fn.recurse == nil || len(a.pos) != 1 {
			fail("loop(...) wants one argument, in a loop that is recursive")
		}
		return fn.recurse(a.pos[0])
	case *undefined:
		fn.fail()
	}
	fail("a value of type %s cannot be called", typeName(fn))
	return nil
}

// attr evaluates v.name: methods first, then the items of a dict.
func (it *interp) attr(v any, name string) any {
	var methods map[string]builtin
	it.read(2 * len(name))
	switch v := v.(type) {
	case string, *Text:
		methods = stringMethods
	case *Dict:
		methods = dictMethods
	case *List:
		methods = listMethods
	case *namespace:
		if x, ok := v.attrs.Get(name); ok {
			return x
		}
	case *loop:
		return v.attr(name)
	case *undefined:
		v.fail()
	}
	if m := builtinOf(methods, name); m != nil {
		return native(func(it *interp, a args) any { return m(it, v, a) })
	}
	if d, ok := v.(*Dict); ok {
		if x, ok := d.Get(name); ok {
			return x
		}
	}
	return missing("%s has no attribute '%s'", typeName(v), name)
}

// item evaluates v[index]: items of the container first, then attributes.
func (it *interp) item(v, index any) any {
	if _, ok := index.(*undefined); ok {
		if u, ok := v.(*undefined); ok {
			u.fail()
		}
		return missing("%s has no item that is undefined", typeName(v))
	}
	switch v := v.(type) {
	case *Dict:
		if l, ok := index.(*List); ok {
			return missing("%s has no item %s", typeName(v), it.text(l))
		}
		if x, ok := it.get(v, index); ok {
			return x
		}
	case *List:
		if i, ok := number(index); ok {
			if i, ok := place(i, len(v.Items)); ok {
				return v.Items[i]
			}
		}
	case string, *Text:
		if i, ok := number(index); ok {
			if i, ok := place(i, it.length(v)); ok {
				t, _ := textOf(v)
				return t.part(cut(t.s, i, i+1))
			}
		}
	case *undefined:
		v.fail()
	}
	if name, ok := textOf(index); ok {
		return it.attr(v, name.s)
	}
	return missing("%s has no item %s", typeName(v), it.text(index))
}

// place resolves an index into n items; negative ones count from the end.
func place(index any, n int) (int, bool) {
	i, ok := index.(int64)
	if i < 0 {
		i += int64(n)
	}
	return int(i), ok && i >= 0 && i < int64(n)
}

// cut returns where the characters of s are from index from up to, excluding, to.
func cut(s string, from, to int) (begin, end int) {
	if len(s) == utf8.RuneCountInString(s) {
		return from, to
	}
	begin = runes(s, from)
	return begin, begin + runes(s[begin:], to-from)
}

// first returns the first n characters of s.
func first(s string, n int) string {
	_, end := cut(s, 0, n)
	return s[:end]
}

// runes returns how many bytes the first n characters take.
func runes(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

func (it *interp) slice(e *sliceExpr, sc *scope) any {
	v := it.eval(e.x, sc)
	if u, ok := v.(*undefined); ok {
		u.fail()
	}
	part := func(e expr) (int, bool) {
		if e == nil {
			return 0, false
		}
		x := it.eval(e, sc)
		if x == nil {
			return 0, false
		}
		return integer(x, "an index"), true
	}
	n := 0
	switch v := v.(type) {
	case string, *Text, *List:
		n = it.length(v)
	default:
		return missing("%s has no slices", typeName(v))
	}
	start, hasStart := part(e.start)
	stop, hasStop := part(e.stop)
	step, hasStep := part(e.step)
	if !hasStep {
		step = 1
	}
	if step == 0 {
		fail("the step of a slice is 0")
	}
	// As in Python, bounds outside of the items are clamped.
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	clamp := func(i int) int {
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	from, to := low, high
	if step < 0 {
		from, to = high, low
	}
	if hasStart {
		from = clamp(start)
	}
	if hasStop {
		to = clamp(stop)
	}
	t, isText := textOf(v)
	if isText && step == 1 {
		it.read(len(t.s))
		return t.part(cut(t.s, from, max(from, to)))
	}
	items := it.iterate(v)
	var kept []any
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		kept = append(kept, items[i])
		if step > n || step < -n { // and i would overflow
			break
		}
	}
	l := it.list(kept)
	if isText {
		return it.join(l.Items, Text{})
	}
	l.tuple = v.(*List).tuple
	return l
}

func (it *interp) join(items []any, sep Text) any {
	var b builder
	for i, v := range items {
		it.step(1)
		if i > 0 {
			it.alloc(len(sep.s))
			b.add(it, sep)
		}
		t := it.printed(v)
		it.alloc(len(t.s))
		b.add(it, t)
	}
	return b.value()
}

func (it *interp) comparison(e *compareExpr, sc *scope) any {
	x := it.eval(e.x, sc)
	for i, op := range e.ops {
		y := it.eval(e.with[i], sc)
		if !it.holds(op, x, y) {
			return false
		}
		x = y
	}
	return true
}

func (it *interp) holds(op string, x, y any) bool {
	switch op {
	case "==":
		return it.equal(x, y)
	case "!=":
		return !it.equal(x, y)
	case "in":
		return it.contains(y, x)
	case "not in":
		return !it.contains(y, x)
	}
	if nan(x) || nan(y) {
		return false
	}
	c := it.compare(op, x, y)
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

func nan(v any) bool {
	f, ok := v.(float64)
	return ok && math.IsNaN(f)
}

func (it *interp) contains(all, v any) bool {
	switch all := plain(all).(type) {
	case string:
		s, ok := plain(v).(string)
		if !ok {
			fail("only text can be in a text, not a value of type %s", typeName(v))
		}
		it.read(len(all))
		return strings.Contains(all, s)
	case *Dict:
		if _, ok := v.(*List); ok {
			return false
		}
		_, ok := it.get(all, v)
		return ok
	}
	for _, x := range it.iterate(all) {
		if it.equal(x, v) {
			return true
		}
	}
	return false
}

func (it *interp) binary(op string, x, y any) any {
	for _, v := range []any{x, y} {
		if u, ok := v.(*undefined); ok {
			u.fail()
		}
	}
	if t, ok := textOf(x); ok && op == "%" {
		return it.printf(t, y)
	}
	a, ok := number(x)
	b, ok2 := number(y)
	if ok && ok2 {
		i, ok := a.(int64)
		j, ok2 := b.(int64)
		if ok && ok2 && op != "/" && (op != "**" || j >= 0) {
			return integers(op, i, j)
		}
		return floats(op, toFloat(a), toFloat(b))
	}
	switch op {
	case "+":
		switch x := x.(type) {
		case string, *Text:
			if y, ok := textOf(y); ok {
				t, _ := textOf(x)
				it.alloc(len(t.s) + len(y.s))
				var b builder
				b.Grow(len(t.s) + len(y.s))
				b.add(it, t)
				b.add(it, y)
				return b.value()
			}
		case *List:
			if y, ok := y.(*List); ok && x.tuple == y.tuple {
				l := it.list(append(x.Items[:len(x.Items):len(x.Items)], y.Items...))
				l.tuple = x.tuple
				return l
			}
		}
	case "*":
		if n, ok := a.(int64); ok { // 3 * "x"
			return it.repeat(y, n)
		}
		if n, ok := b.(int64); ok {
			return it.repeat(x, n)
		}
	}
	fail("cannot compute %s %s %s", typeName(x), op, typeName(y))
	return nil
}

func (it *interp) repeat(v any, n int64) any {
	n = max(n, 0)
	// Counted first, and in a way that cannot overflow.
	count := func(size int) {
		if size > 0 && n > int64(it.limits.Bytes/size) {
			fail("makes too much text: %w", ErrLimit)
		}
		it.alloc(size * int(n))
	}
	switch v := v.(type) {
	case *Text:
		return outsideAll(it, it.repeat(v.s, n))
	case string:
		count(len(v))
		return strings.Repeat(v, int(n)*min(len(v), 1))
	case *List:
		count(len(v.Items) * listItem)
		l := &List{tuple: v.tuple}
		for range int(n) * min(len(v.Items), 1) {
			l.Items = append(l.Items, v.Items...)
		}
		return l
	}
	fail("cannot repeat a value of type %s", typeName(v))
	return nil
}

func integers(op string, i, j int64) any {
	var r int64
	fits := true
	switch op {
	case "+":
		r = i + j
		fits = (r > i) == (j > 0)
	case "-":
		r = i - j
		fits = (r < i) == (j > 0)
	case "*":
		r, fits = times(i, j)
	case "//", "%":
		if j == 0 {
			fail("division by zero")
		}
		if j == -1 { // the only divisor whose quotient can overflow
			if op == "%" {
				return int64(0)
			}
			return integers("-", 0, i)
		}
		r = i / j
		rest := i % j
		if rest != 0 && (rest < 0) != (j < 0) { // Python rounds down
			r, rest = r-1, rest+j
		}
		if op == "%" {
			r = rest
		}
	case "**":
		r = 1
		for ; j > 0 && fits; j >>= 1 {
			if j&1 == 1 {
				if r, fits = times(r, i); !fits {
					break
				}
			}
			if j > 1 {
				i, fits = times(i, i)
			}
		}
	}
	if !fits {
		fail("the integer of %s is out of range", op)
	}
	return r
}

func times(i, j int64) (int64, bool) {
	r := i * j
	return r, i == 0 || r/i == j && !(i == -1 && j == math.MinInt64)
}

func floats(op string, x, y float64) any {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "**":
		return math.Pow(x, y)
	}
	if y == 0 {
		fail("division by zero")
	}
	switch op {
	case "/":
		return x / y
	case "//":
		return math.Floor(x / y)
	}
	rest := math.Mod(x, y)
	if rest != 0 && (rest < 0) != (y < 0) {
		rest += y
	}
	return rest
}
