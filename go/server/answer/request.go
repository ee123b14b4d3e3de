package answer

import (
	"context"
	"fmt"
	"math"
	"mime"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/quota"
	"github.com/quern-llm/quern/go/server/reply"
)

// A Request is a request to an endpoint, from its arrival to the end of its answer.
type Request struct {
	HTTP    *gin.Context
	Route   *Route
	Caller  Caller
	Body    []byte       // once it is received; nil again once all is made of it
	File    []byte       // of a form, whose other fields are then Body, as JSON
	Model   *ask.Model   // nil: the endpoint is not of a model
	Adapter *ask.Adapter // named as the model; nil: none was
	ByName  bool         // the caller may ask what Name means, and not its model otherwise

	Name   string                   // of the model, as the request has it
	Stay   models.Options           // of the model in memory
	Lease  *models.Lease[ask.Model] // of Model, until the request is answered
	Waited bool                     // a stream began while the request waited for its model
	Run    *quota.Run               // what is counted of it; nil: nothing is
	kept   *keptStream              // it is; nil: it is not

	host      *Host
	path      string                    // of the route, as it was registered
	received  bool                      // Body is complete
	peeks     map[string]jsontext.Value // of Body
	Malformed bool                      // Body is not JSON: known once something of it was peeked at

	mostBody int64     // bytes that a body of unknown length may have
	arrived  *mem.Pass // the memory of the body
	making   *mem.Pass // the memory of what is made of it
}

// A Caller is whose request it is.
type Caller struct {
	Flow       string         // for fair shares of the machine
	Weight     float64        // of the flow
	Background bool           // it is a request of a batch: it gives way to any other
	Owner      string         // whose files, stored answers and texts it may see
	Space      string         // the namespace of its texts in the prefix cache
	Admin      bool           // may change the server, and end requests of others
	Priority   int            // the highest that it may ask for
	Models     []string       // that it may ask, by any of their names; nil: all
	Account    *quota.Account // counts what it asks; nil: nothing does
}

// backgroundPriority is below all that requests may ask for: a batch's requests fill the time that no others want, and
// give way to any.
const backgroundPriority = math.MinInt32

// priority returns the priority of a request that asks for one.
func (c *Caller) priority(asked int) (int, error) {
	switch {
	case c.Background:
		return backgroundPriority, nil
	case asked > c.Priority:
		return 0, &reply.Error{Status: http.StatusForbidden, Param: "priority",
			Message: fmt.Sprintf("priority: got %d, want at most %d, which is the highest for this API key or token", asked, c.Priority)}
	}
	return asked, nil
}

// Owns reports whether a request of an owner is the caller's to look into and to end.
func (c *Caller) Owns(owner string) bool { return c.Admin || c.Owner == owner }

// ErrUser is the error of a request that is an administrator's.
var ErrUser = &reply.Error{Status: http.StatusForbidden,
	Message: "this API key or token has the role user; want one with the role admin"}

// A Host is what a server lends to its requests.
type Host struct {
	Running  *Running
	Ping     time.Duration                      // silence after which a stream is kept alive; negative: never
	Note     func(*gin.Context, map[string]any) // takes the log fields of a request that generated
	Log      zerolog.Logger
	Gates    gates
	Progress time.Duration // how often the log tells how far a long prompt is
	Kept     *Kept         // takes answers; nil: none are kept
	Streams  *Streams
	Words    func(string) string // puts errors in the words of whoever runs the server; nil: they stay
}

// NewRequest returns the request of an HTTP request to a route. A body of unknown length has at most mostBody bytes.
func NewRequest(host *Host, c *gin.Context, r *Route, caller Caller, mostBody int64) *Request {
	return &Request{HTTP: c, Caller: caller, host: host, Route: r, path: c.FullPath(), mostBody: mostBody}
}

// Context ends when the client is gone.
func (req *Request) Context() context.Context { return req.HTTP.Request.Context() }

// Read takes the body into its fields.
func (req *Request) Read(q field.Query) error {
	if err := req.Receive(); err != nil {
		return err
	}
	return field.Read(req.Body, q.Fields())
}

// Outlive keeps what the request has, its model, its adapter and its place among the caller's, until end is called: its
// answer goes on when the HTTP request has been answered.
func (req *Request) Outlive() (end func()) {
	lease, release := req.Lease.Again(), req.Model.Tuned.Again(req.Adapter)
	req.Run.Again()
	return func() {
		req.Run.End(false)
		release()
		lease.Release()
	}
}

// May reports whether the caller may ask a model that has these names.
func (req *Request) May(names ...string) bool { return quota.Allows(req.Caller.Models, names...) }

// TellQuota puts into the header of the answer what is left of the caller's quotas. It is called again when that changes.
func (req *Request) TellQuota() {
	if state, ok := req.Caller.Account.State(); ok {
		req.Route.Speaks().Quota(req.HTTP.Writer.Header(), state)
	}
}

// Input counts the tokens of prompts before they are computed. The error is an *quota.Error: there are fewer left.
func (req *Request) Input(tokens int, generates bool) error {
	err := req.Run.Input(tokens, generates)
	req.TellQuota()
	return err
}

// Switch returns what a parameter of the query that is on or off says, nil where it is not there.
func (req *Request) Switch(name string) (*bool, error) {
	text, ok := req.HTTP.GetQuery(name)
	if !ok {
		return nil, nil
	}
	on := text == "true" || text == "1"
	if !on && text != "false" && text != "0" {
		return nil, reply.Invalid(name, "%s, want true or false", field.Quote(text))
	}
	return &on, nil
}

// On reports whether such a parameter is on.
func (req *Request) On(name string) (bool, error) {
	on, err := req.Switch(name)
	return on != nil && *on, err
}

// OfOtherSite reports whether a browser sends the request for a page of another origin, whatever its method.
func (r *Request) OfOtherSite() bool {
	asked := *r.HTTP.Request
	asked.Method = http.MethodPost // others are taken to change nothing
	return http.NewCrossOriginProtection().Check(&asked) != nil
}

// MayCallTools refuses what could make a browser call tools for a page of another origin, whichever the server allows
// otherwise: a tool may do anything. That the body has to be JSON keeps the forms of such pages out even where a browser says
// nothing of its origin. do is what such a page may not, and since is added to why the body has to be JSON.
func (req *Request) MayCallTools(do, since string) error {
	if req.OfOtherSite() {
		return &reply.Error{Status: http.StatusForbidden,
			Message: "a page of another origin may not " + do + ", only the server's own page and programs may"}
	}
	kind := req.HTTP.GetHeader("Content-Type")
	if plain, _, err := mime.ParseMediaType(kind); err != nil || plain != "application/json" {
		return &reply.Error{Status: http.StatusUnsupportedMediaType,
			Message: fmt.Sprintf("the body has the type %s, want application/json%s", field.Quote(kind), since)}
	}
	return nil
}

// Send answers with a value as JSON.
func (req *Request) Send(v any) { reply.JSON(req.HTTP, 200, v) }
