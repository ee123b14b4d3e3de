package chat

import "strings"

// named is the form of calls whose name comes before the JSON of their arguments.
type named struct {
	before, between, after string // around the name and the arguments
	id                     string // between the name and the id, where calls have one
	idFirst                string // between the id and the name, where it comes first
	plain                  string // a name after which content comes
	trim                   func(text string) (name, id string)
}

func (f named) parse(p *caller, then cont) cont {
	return p.mark(f.before, func() step {
		var name []byte
		take := func(text []byte) bool {
			name = append(name, text...)
			return len(name) <= 2*maxName
		}
		return until(f.between, take, func() step {
			text, id := strings.TrimSpace(string(name)), ""
			if f.id != "" {
				text, id, _ = strings.Cut(text, f.id)
			}
			if before, after, ok := strings.Cut(text, f.idFirst); f.idFirst != "" && ok {
				id, text = before, after
			}
			if f.plain != "" && text == f.plain {
				return p.end()
			}
			if f.trim != nil {
				text, id = f.trim(text)
			}
			if !p.name(text, id) {
				return nil
			}
			return space(func(c byte) step {
				if c != '{' {
					return nil
				}
				return value(p.argue, p.mark(f.after, p.finishing(then)))(c)
			})
		})
	})
}

func (f named) marks() []string { return []string{f.before, f.between, f.id, f.idFirst, f.after} }
