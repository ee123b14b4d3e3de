package chat

import (
	"encoding/json"
	"strings"
)

// object is the form of calls that are JSON objects, or one list of them. The keys are
// those that the models are taught; all that any family has are understood.
type object struct {
	list           bool
	before, after  string // around the list
	name, args, id string // keys; id may be empty, and so the others, where the name is the only key
}

func (f object) parse(p *caller, then cont) cont {
	if !f.list {
		return f.one(p, then)
	}
	var each cont
	each = f.one(p, func() step {
		return p.either(branch{",", func() step { return each() }}, branch{"]", p.mark(f.after, then)})
	})
	return p.mark(f.before, p.mark("[", each))
}

// one parses a call.
func (f object) one(p *caller, then cont) cont {
	return func() step {
		o := &objectCall{p: p, only: f.name == ""}
		o.then = func() step {
			if !o.named() {
				return nil
			}
			return p.finishing(then)()
		}
		return p.either(branch{"{", o.key})
	}
}

// An objectCall is a call in JSON while it is parsed. Its arguments may come before its
// name, and its id after.
type objectCall struct {
	p        *caller
	then     cont
	name, id string
	depth    int
	only     bool // the name is the only key
}

// named begins the call, if it has a name and has not begun.
func (o *objectCall) named() bool {
	return o.p.begun || o.p.name(o.name, o.id)
}

// key takes the key of a member.
func (o *objectCall) key() step {
	key := &jsonText{}
	return space(func(c byte) step {
		if c != '"' {
			return nil
		}
		return value(key.write, func() step {
			return o.p.either(branch{":", func() step { return space(o.member(key.String())) }})
		})(c)
	})
}

// member takes the value of a member.
func (o *objectCall) member(key string) step {
	if o.only {
		if o.name != "" || !o.call(key) {
			return nil
		}
		return o.arguments
	}
	v := &jsonText{}
	skip := func(...byte) {}
	switch key {
	case "name", "tool_name":
		return o.text(v, func() bool { return o.call(v.String()) })
	case "id", "tool_call_id":
		return value(v.write, func() step {
			o.id = v.String()
			return o.more()
		})
	case "arguments", "parameters":
		return o.arguments
	case "function": // OpenAI's form, within which the name and the arguments are
		return func(c byte) step {
			if c == '{' {
				o.depth++
				return o.key()
			}
			return o.text(v, func() bool { return o.call(v.String()) })(c)
		}
	}
	if o.p.known && o.name == "" && key != "type" {
		return nil
	}
	return value(skip, o.more)
}

// call notes the name. It returns false if that cannot be.
func (o *objectCall) call(name string) bool {
	o.name = name
	return !o.p.known || o.p.tool(name) != nil
}

// text takes a string, which set may refuse.
func (o *objectCall) text(v *jsonText, set func() bool) step {
	return func(c byte) step {
		if c != '"' {
			return nil
		}
		return value(v.write, func() step {
			if !set() {
				return nil
			}
			return o.more()
		})(c)
	}
}

// arguments takes an object, or the text of one.
func (o *objectCall) arguments(c byte) step {
	if strings.IndexByte(`{"n`, c) < 0 || o.name != "" && !o.named() {
		return nil
	}
	switch c {
	case '{':
		return value(o.p.argue, o.more)(c)
	case '"':
		v := &jsonText{}
		return value(v.write, func() step {
			text := v.String()
			if text == "" {
				text = "{}"
			}
			if !json.Valid([]byte(text)) {
				return nil
			}
			o.p.argue([]byte(text)...)
			return o.more()
		})(c)
	case 'n': // null
		return value(func(...byte) {}, o.more)(c)
	}
	return nil
}

// more follows a member.
func (o *objectCall) more() step {
	return o.p.either(branch{",", o.key}, branch{"}", func() step {
		if o.depth > 0 {
			o.depth--
			return o.more()
		}
		return o.then()
	}})
}

func (f object) marks() []string { return []string{f.before, f.after} }
