package pdf

import "bytes"

// A matrix moves points (x, y) to (x*a + y*c + e, x*b + y*d + f).
type matrix [6]float64

var identity = matrix{1, 0, 0, 1, 0, 0}

// then returns the matrix that does first m and then n.
func (m matrix) then(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3], m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

// A state is what operators set.
type state struct {
	at                                    matrix // of the page
	font                                  *font
	size, chars, words, stretch, lead, up float64
}

// Limits of content.
const (
	maxOperands = 64
	maxStates   = 256
	maxForms    = 12      // within each other
	perForm     = 1 << 10 // bytes that one counts for, beside its content
	tickEvery   = 512     // operators and glyphs
)

// step counts operators and glyphs, and returns an error once a limit is passed.
func (w *writer) step() error {
	if w.steps++; w.steps%tickEvery != 0 {
		return nil
	}
	return w.f.tick()
}

// run shows content.
func (w *writer) run(content []byte, resources dict, at matrix, depth int) error {
	s := state{at: at, stretch: 1}
	var saved []state
	line, glyphs := identity, identity // matrices of the line and of the next glyph
	l := lexer{data: content}
	var args []any
	n := func(i int) float64 {
		if i < len(args) {
			v, _ := args[i].(float64)
			return v
		}
		return 0
	}
	str := func(i int) string {
		if i >= 0 && i < len(args) {
			v, _ := args[i].(text)
			return string(v)
		}
		return ""
	}
	move := func(x, y float64) {
		line = matrix{1, 0, 0, 1, x, y}.then(line)
		glyphs = line
	}
	for {
		v := l.next()
		if v == (done{}) {
			return nil
		}
		op, ok := v.(keyword)
		if !ok {
			if len(args) < maxOperands {
				args = append(args, v)
			}
			continue
		}
		err := w.step()
		if err == nil {
			err = w.f.weigh(l.cost)
		}
		if err != nil {
			return err
		}
		l.cost = 0
		switch op {
		case "q":
			if len(saved) < maxStates {
				saved = append(saved, s)
			}
		case "Q":
			if k := len(saved); k > 0 {
				s, saved = saved[k-1], saved[:k-1]
			}
		case "cm":
			s.at = matrix{n(0), n(1), n(2), n(3), n(4), n(5)}.then(s.at)
		case "BT":
			line, glyphs = identity, identity
		case "Tf":
			if len(args) > 0 {
				if key, ok := args[0].(name); ok {
					s.font = w.f.fontOf(w.f.dict(resources["Font"])[key])
				}
			}
			s.size = n(1)
		case "Tc":
			s.chars = n(0)
		case "Tw":
			s.words = n(0)
		case "Tz":
			s.stretch = n(0) / 100
		case "TL":
			s.lead = n(0)
		case "Ts":
			s.up = n(0)
		case "Td":
			move(n(0), n(1))
		case "TD":
			s.lead = -n(1)
			move(n(0), n(1))
		case "Tm":
			line = matrix{n(0), n(1), n(2), n(3), n(4), n(5)}
			glyphs = line
		case "T*":
			move(0, -s.lead)
		case "Tj":
			err = w.show(&s, &glyphs, str(0))
		case "'":
			move(0, -s.lead)
			err = w.show(&s, &glyphs, str(0))
		case "\"":
			s.words, s.chars = n(0), n(1)
			move(0, -s.lead)
			err = w.show(&s, &glyphs, str(2))
		case "TJ":
			if len(args) > 0 {
				err = w.showAll(&s, &glyphs, args[0])
			}
		case "Do":
			if len(args) > 0 {
				if key, ok := args[0].(name); ok {
					if form, ok := w.f.get(w.f.dict(resources["XObject"])[key]).(*stream); ok && w.f.get(form.dict["Subtype"]) == name("Form") {
						err = w.form(form, resources, s.at, depth+1)
					}
				}
			}
		case "BMC":
			w.mark("", false)
		case "BDC":
			var about any
			if len(args) > 1 {
				about = args[1]
			}
			if key, ok := about.(name); ok {
				about = w.f.dict(resources["Properties"])[key]
			}
			says, ok := w.f.get(w.f.dict(about)["ActualText"]).(text)
			w.mark(textOf(says), ok)
		case "EMC":
			w.unmark()
		case "BI":
			l.picture()
		}
		if err != nil {
			return err
		}
		clear(args) // they may be large, and the next may be fewer
		args = args[:0]
	}
}

// form shows a stream of content that others use.
func (w *writer) form(s *stream, resources dict, at matrix, depth int) error {
	if depth > maxForms {
		return nil
	}
	if own := w.f.dict(s.dict["Resources"]); own != nil {
		resources = own
	}
	if m := w.f.array(s.dict["Matrix"]); len(m) == 6 {
		var own matrix
		for i := range own {
			own[i] = w.f.number(m[i], identity[i])
		}
		at = own.then(at)
	}
	content, err := w.f.decode(s)
	if err == nil {
		err = w.f.charge(len(content) + perForm) // forms that show forms show many of the last
	}
	if err != nil {
		return err
	}
	return w.run(content, resources, at, depth)
}

// picture goes past a picture that stands in the content.
func (l *lexer) picture() {
	for {
		v := l.next()
		if v == (done{}) {
			return
		}
		if v == keyword("ID") {
			break
		}
	}
	for l.at < len(l.data) {
		n := bytes.Index(l.data[l.at:], []byte("EI"))
		if n < 0 {
			l.at = len(l.data)
			return
		}
		from := l.at + n
		l.at = from + 2
		if from > 0 && isSpace(l.data[from-1]) && (l.at == len(l.data) || isSpace(l.data[l.at])) {
			return
		}
	}
}

// textOf is a string of a dictionary: UTF-16 with its mark, UTF-8 with its, or about Latin-1.
func textOf(t text) string {
	s := string(t)
	switch {
	case len(s) >= 2 && s[:2] == "\xfe\xff":
		return clean(fromUTF16(s[2:]))
	case len(s) >= 3 && s[:3] == "\xef\xbb\xbf":
		return clean(s[3:])
	}
	var out []rune
	for _, c := range []byte(s) {
		out = append(out, rune(c))
	}
	return clean(string(out))
}

func (w *writer) showAll(s *state, glyphs *matrix, v any) error {
	list, _ := v.(array)
	for _, one := range list {
		switch one := one.(type) {
		case text:
			if err := w.show(s, glyphs, string(one)); err != nil {
				return err
			}
		case float64:
			by := -one / 1000 * s.size
			if s.font != nil && s.font.down {
				*glyphs = matrix{1, 0, 0, 1, 0, by}.then(*glyphs)
			} else {
				*glyphs = matrix{1, 0, 0, 1, by * s.stretch, 0}.then(*glyphs)
			}
		}
	}
	return nil
}

// show shows a string, and moves the matrix behind it.
func (w *writer) show(s *state, glyphs *matrix, str string) error {
	if s.font == nil {
		return nil
	}
	return s.font.each(str, func(g shown) error {
		if err := w.step(); err != nil {
			return err
		}
		by := g.width*s.size + s.chars
		if g.space {
			by += s.words
		}
		along := matrix{1, 0, 0, 1, by * s.stretch, 0}
		if s.font.down {
			along = matrix{1, 0, 0, 1, 0, -s.size - s.chars}
		}
		from := matrix{1, 0, 0, 1, 0, s.up}.then(*glyphs).then(s.at)
		*glyphs = along.then(*glyphs)
		to := matrix{1, 0, 0, 1, 0, s.up}.then(*glyphs).then(s.at)
		return w.put(g.chars, from, to, s.size)
	})
}
