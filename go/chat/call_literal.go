package chat

import "strings"

// braces is the form of calls of Gemma: call:name{key:value}, whose texts are between
// marks and whose keys have none.
type braces struct{ before, quote string }

func (f braces) marks() []string { return []string{f.before, f.quote} }

func (f braces) parse(p *caller, then cont) cont {
	return p.mark(f.before, func() step {
		name := ""
		take := func(text []byte) bool {
			name += string(text)
			return len(name) <= maxName
		}
		return until("{", take, func() step {
			if !p.name(strings.TrimSpace(name), "") {
				return nil
			}
			l := &literal{sink: p.argue, quotes: []string{f.quote}}
			return l.members("}", ":", p.finishing(then))
		})
	})
}

// python is the form of calls as Python has them: a list of name(key=value).
type python struct{}

func (python) marks() []string { return nil }

func (f python) parse(p *caller, then cont) cont {
	var each cont
	each = func() step {
		name := ""
		take := func(text []byte) bool {
			name += string(text)
			return len(name) <= maxName
		}
		return until("(", take, func() step {
			if !p.name(strings.TrimSpace(name), "") {
				return nil
			}
			l := &literal{sink: p.argue, quotes: []string{`"`, "'"}, escapes: true}
			return l.members(")", "=", p.finishing(func() step {
				return p.either(branch{",", each}, branch{"]", then})
			}))
		})
	}
	return p.mark("[", each)
}

// A literal makes JSON of values in the notation of a language.
type literal struct {
	sink    func(text ...byte)
	quotes  []string // around texts
	escapes bool     // a backslash in a text escapes what follows, as in Python
	depth   int
}

// members takes what an object or the arguments of a call consist of, up to a mark.
func (l *literal) members(end, colon string, then cont) step {
	l.sink('{')
	return l.list(end, then, '}', func(then cont) step {
		return l.key(colon, func() step { return l.value(then) })
	})
}

// list takes parts with commas between them, up to a mark, of which the last byte in JSON is close.
func (l *literal) list(end string, then cont, close byte, part func(then cont) step) step {
	if l.depth++; l.depth > maxDepth {
		return nil
	}
	var s step
	some := false
	after := func() step {
		return space(func(c byte) step {
			switch {
			case c == end[0]:
				return s(c)
			case c != ',':
				return nil
			}
			return space(s)
		})
	}
	s = func(c byte) step {
		if c == end[0] {
			l.depth--
			l.sink(close)
			return then()
		}
		if some {
			l.sink(',', ' ')
		}
		some = true
		return part(after)(c)
	}
	return space(s)
}

// key takes the name of a member, with or without quotes, and the mark after it.
func (l *literal) key(colon string, then cont) step {
	name := ""
	take := func(text []byte) bool {
		name += string(text)
		return len(name) <= maxName
	}
	return until(colon, take, func() step {
		name = strings.TrimSpace(name)
		for _, q := range l.quotes {
			if len(name) >= 2*len(q) && strings.HasPrefix(name, q) && strings.HasSuffix(name, q) {
				name = name[len(q) : len(name)-len(q)]
			}
		}
		l.sink('"')
		l.sink(quoted([]byte(name))...)
		l.sink('"', ':', ' ')
		return then()
	})
}

// value takes a value. Numbers and words end before a byte that is no part of them.
func (l *literal) value(then cont) step {
	return space(func(c byte) step {
		switch c {
		case '{':
			return l.members("}", ":", then)
		case '[', '(':
			l.sink('[')
			return l.list(string(map[byte]byte{'[': ']', '(': ')'}[c]), then, ']', l.value)
		}
		for _, q := range l.quotes {
			if q[0] == c {
				return l.text(q, then)(c)
			}
		}
		var word []byte
		var s step
		s = func(c byte) step {
			if c != ',' && c != '}' && c != ']' && c != ')' && !isSpace(c) {
				word = append(word, c)
				if len(word) > 64 {
					return nil
				}
				return s
			}
			v, ok := scalarJSON(string(word))
			if !ok {
				return nil
			}
			l.sink([]byte(v)...)
			if after := then(); after != nil {
				return after(c)
			}
			return nil
		}
		return s(c)
	})
}

// text takes a text in quotes.
func (l *literal) text(quote string, then cont) step {
	i := 0
	var s step
	s = func(c byte) step {
		if quote[i] != c {
			return nil
		}
		if i++; i < len(quote) {
			return s
		}
		l.sink('"')
		if l.escapes {
			return l.escaped(quote[0], then)
		}
		return until(quote, func(text []byte) bool {
			l.sink(quoted(text)...)
			return true
		}, func() step {
			l.sink('"')
			return then()
		})
	}
	return s
}

// escaped takes the rest of a text with backslashes.
func (l *literal) escaped(quote byte, then cont) step {
	var s step
	s = func(c byte) step {
		switch c {
		case quote:
			l.sink('"')
			return then()
		case '"':
			l.sink('\\', '"')
		case '\\':
			return escape(l.sink, s)
		default:
			l.sink(escaped(c)...)
		}
		return s
	}
	return s
}
