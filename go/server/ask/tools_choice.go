package ask

import (
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/server/field"
)

// A ToolChoice is which tools the model may call, and whether it must.
type ToolChoice struct {
	Mode       string   // none, required, or auto, which "" is too
	Names      []string // nil: any
	old        bool     // it came as function_call
	new, twice bool
}

const wantChoice = `none, auto, required or {"type": "function", "function": {"name": "get_time"}}`

func (c *ToolChoice) Take(r *field.Reader) error {
	c.twice, c.new = c.old, true
	c.Mode, c.Names = "", nil
	if r.Kind() == '"' {
		return field.OneOf(&c.Mode, "none", "auto", "required").Take(r)
	}
	return c.object(r, "")
}

// object reads a choice that is an object: one function, or those that are allowed.
func (c *ToolChoice) object(r *field.Reader, kind string) error {
	one, mode, namespace := "", "", ""
	var some []string
	listed := false
	list := func() error {
		listed = true
		return r.Elements("an array of tools", func(i int) error {
			name, err := readChosen(r)
			some = append(some, name)
			return field.Within(fmt.Sprintf("element %d", i), err)
		})
	}
	err := r.Members(wantChoice, func(name string) error {
		var err error
		switch name {
		case "type":
			kind, err = r.Text("function, custom or allowed_tools")
		case "function", "custom":
			one, err = readNamed(r)
		case "name":
			one, err = r.Text("a string")
		case "namespace":
			namespace, err = readNamespace(r)
		case "mode":
			err = field.OneOf(&mode, "auto", "required").Take(r)
		case "tools":
			err = list()
		case "allowed_tools":
			err = r.Members("an object", func(name string) error {
				switch name {
				case "mode":
					return field.Within(name, field.OneOf(&mode, "auto", "required").Take(r))
				case "tools":
					return field.Within(name, list())
				}
				_, err := r.Raw()
				return err
			})
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	switch {
	case err != nil:
		return err
	case kind == "allowed_tools" && listed && len(some) > 0:
		c.Mode, c.Names = mode, some
	case kind == "allowed_tools":
		return fmt.Errorf("tools: missing or empty, want those that are allowed")
	case kind != "" && kind != "function" && kind != "custom":
		return fmt.Errorf("type: the string %s, want function, custom or allowed_tools", field.Quote(kind))
	case one == "":
		return fmt.Errorf("an object without the name of a function, want %s", wantChoice)
	default:
		c.Mode, c.Names = "required", []string{FlatName(namespace, one)}
	}
	return nil
}

// readChosen reads one of the tools that are allowed.
func readChosen(r *field.Reader) (string, error) {
	one, namespace := "", ""
	err := r.Members("an object", func(name string) error {
		var err error
		switch name {
		case "function", "custom":
			one, err = readNamed(r)
		case "name":
			one, err = r.Text("a string")
		case "namespace":
			namespace, err = readNamespace(r)
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	if err == nil && one == "" {
		err = fmt.Errorf("no name, want that of a function")
	}
	return FlatName(namespace, one), err
}

// readNamespace reads the namespace of a tool that is chosen, which only tools of responses have.
func readNamespace(r *field.Reader) (string, error) {
	if r.Kind() == 'n' {
		_, err := r.Raw()
		return "", err
	}
	return r.Text("a string")
}

// readNamed reads an object that has a name.
func readNamed(r *field.Reader) (one string, err error) {
	err = r.Members("an object with a name", func(name string) (err error) {
		if name == "name" {
			one, err = r.Text("a string")
		} else {
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	return one, err
}

func (c *ToolChoice) Value() any { return nil }

func (c *ToolChoice) Schema() field.Schema {
	return field.Schema{"description": wantChoice, "anyOf": []field.Schema{
		{"type": "string", "enum": []string{"none", "auto", "required"}}, {"type": "object"},
	}}
}

// oldChoice is the field function_call.
type oldChoice struct{ to *ToolChoice }

func (c oldChoice) Take(r *field.Reader) error {
	c.to.twice, c.to.old = c.to.new, true
	c.to.Mode, c.to.Names = "", nil
	if r.Kind() == '"' {
		return field.OneOf(&c.to.Mode, "none", "auto").Take(r)
	}
	one, err := readNamed(r)
	if err == nil && one == "" {
		err = fmt.Errorf(`an object without a name, want none, auto or {"name": "get_time"}`)
	}
	c.to.Mode, c.to.Names = "required", []string{one}
	return err
}

func (c oldChoice) Value() any { return nil }

func (c oldChoice) Schema() field.Schema {
	return field.Schema{"anyOf": []field.Schema{{"type": "string", "enum": []string{"none", "auto"}}, {"type": "object"}}}
}

// FlatName is the name that the model has for a tool of a namespace.
func FlatName(namespace, name string) string {
	if namespace != "" && !strings.HasSuffix(namespace, "_") {
		namespace += "__"
	}
	return namespace + name
}
