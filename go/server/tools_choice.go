package server

import (
	"fmt"
)

// A toolChoice is which tools the model may call, and whether it must.
type toolChoice struct {
	mode       string   // none, required, or auto, which "" is too
	names      []string // nil: any
	old        bool     // it came as function_call
	new, twice bool
}

const wantChoice = `none, auto, required or {"type": "function", "function": {"name": "get_time"}}`

func (c *toolChoice) take(r *reader) error {
	c.twice, c.new = c.old, true
	c.mode, c.names = "", nil
	if r.kind() == '"' {
		return oneOf(&c.mode, "none", "auto", "required").take(r)
	}
	return c.object(r, "")
}

// object reads a choice that is an object: one function, or those that are allowed.
func (c *toolChoice) object(r *reader, kind string) error {
	one, mode, namespace := "", "", ""
	var some []string
	listed := false
	list := func() error {
		listed = true
		return r.elements("an array of tools", func(i int) error {
			name, err := readChosen(r)
			some = append(some, name)
			return wrap(fmt.Sprintf("element %d", i), err)
		})
	}
	err := r.members(wantChoice, func(name string) error {
		var err error
		switch name {
		case "type":
			kind, err = r.text("function, custom or allowed_tools")
		case "function", "custom":
			one, err = readNamed(r)
		case "name":
			one, err = r.text("a string")
		case "namespace":
			namespace, err = readNamespace(r)
		case "mode":
			err = oneOf(&mode, "auto", "required").take(r)
		case "tools":
			err = list()
		case "allowed_tools":
			err = r.members("an object", func(name string) error {
				switch name {
				case "mode":
					return wrap(name, oneOf(&mode, "auto", "required").take(r))
				case "tools":
					return wrap(name, list())
				}
				_, err := r.raw()
				return err
			})
		default:
			_, err = r.raw()
		}
		return wrap(name, err)
	})
	switch {
	case err != nil:
		return err
	case kind == "allowed_tools" && listed && len(some) > 0:
		c.mode, c.names = mode, some
	case kind == "allowed_tools":
		return fmt.Errorf("tools: missing or empty, want those that are allowed")
	case kind != "" && kind != "function" && kind != "custom":
		return fmt.Errorf("type: the string %s, want function, custom or allowed_tools", quote(kind))
	case one == "":
		return fmt.Errorf("an object without the name of a function, want %s", wantChoice)
	default:
		c.mode, c.names = "required", []string{flatName(namespace, one)}
	}
	return nil
}

// readChosen reads one of the tools that are allowed.
func readChosen(r *reader) (string, error) {
	one, namespace := "", ""
	err := r.members("an object", func(name string) error {
		var err error
		switch name {
		case "function", "custom":
			one, err = readNamed(r)
		case "name":
			one, err = r.text("a string")
		case "namespace":
			namespace, err = readNamespace(r)
		default:
			_, err = r.raw()
		}
		return wrap(name, err)
	})
	if err == nil && one == "" {
		err = fmt.Errorf("no name, want that of a function")
	}
	return flatName(namespace, one), err
}

// readNamespace reads the namespace of a tool that is chosen, which only tools of responses have.
func readNamespace(r *reader) (string, error) {
	if r.kind() == 'n' {
		_, err := r.raw()
		return "", err
	}
	return r.text("a string")
}

// readNamed reads an object that has a name.
func readNamed(r *reader) (one string, err error) {
	err = r.members("an object with a name", func(name string) (err error) {
		if name == "name" {
			one, err = r.text("a string")
		} else {
			_, err = r.raw()
		}
		return wrap(name, err)
	})
	return one, err
}

func (c *toolChoice) value() any { return nil }

func (c *toolChoice) schema() schema {
	return schema{"description": wantChoice, "anyOf": []schema{
		{"type": "string", "enum": []string{"none", "auto", "required"}}, {"type": "object"},
	}}
}

// oldChoice is the field function_call.
type oldChoice struct{ to *toolChoice }

func (c oldChoice) take(r *reader) error {
	c.to.twice, c.to.old = c.to.new, true
	c.to.mode, c.to.names = "", nil
	if r.kind() == '"' {
		return oneOf(&c.to.mode, "none", "auto").take(r)
	}
	one, err := readNamed(r)
	if err == nil && one == "" {
		err = fmt.Errorf(`an object without a name, want none, auto or {"name": "get_time"}`)
	}
	c.to.mode, c.to.names = "required", []string{one}
	return err
}

func (c oldChoice) value() any { return nil }

func (c oldChoice) schema() schema {
	return schema{"anyOf": []schema{{"type": "string", "enum": []string{"none", "auto"}}, {"type": "object"}}}
}
