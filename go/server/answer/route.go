package answer

import (
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
)

// A Route is a method and paths that are handled alike.
type Route struct {
	Method  string
	Paths   []string // the first is canonical, the others are aliases
	Handle  func(*Request) error
	Within  bool    // its paths are handled by a route with a wildcard
	Always  bool    // served even while the model is loading
	Asleep  bool    // served without waking a model that sleeps; a GET does not load one either
	Admin   bool    // only for keys with the role admin
	Dialect Dialect // nil: Plain
	Form    bool    // its body is a form (multipart/form-data) with a file
	Models  bool    // it has Anthropic's form too, for clients who say that they are Anthropic's
	// Before is called first, with the body received. It may change the model's name and stay, and says whether it has
	// answered already; nil: not called.
	Before  func(*Request) (answered bool, err error)
	Summary string

	// For the OpenAPI document.
	Body    Body
	Params  []Param
	Stream  bool // the response may be a stream of events
	Answer  any  // a value of the response's type, or its schema
	Example any  // of a request body
}

// Speaks returns the dialect of the route.
func (r *Route) Speaks() Dialect {
	if r.Dialect == nil {
		return Plain{}
	}
	return r.Dialect
}

// Takes returns the type of the route's body.
func (r *Route) Takes() string {
	if r.Form {
		return formType
	}
	return "application/json"
}

// A Body describes a request's body. The zero body means none.
type Body struct {
	Name     string
	Defaults func(*ask.Model) field.Query
}

func BodyOf[Q field.Query](name string, defaults func(*ask.Model) Q) Body {
	return Body{name, func(m *ask.Model) field.Query { return defaults(m) }}
}

// A Param is a path or query parameter.
type Param struct {
	In, Name, Doc string
	Is            field.Schema // nil: a string
}

var (
	PathID  = []Param{{"path", "id", "The id.", nil}}
	OfModel = Param{"query", "model", "Which model, where there are several; by default the first.", nil}
	OnOff   = field.Schema{"enum": []string{"true", "false", "1", "0"}} // as Request.Switch reads it
)
