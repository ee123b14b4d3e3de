package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// readBody takes the body of a request into its fields.
func readBody(c *gin.Context, q field.Query) error { return field.Read(received(c), q.Fields()) }

// switchOf returns what a parameter of the query that is on or off says, nil where it is not there.
func switchOf(c *gin.Context, name string) (*bool, error) {
	text, ok := c.GetQuery(name)
	if !ok {
		return nil, nil
	}
	on := text == "true" || text == "1"
	if !on && text != "false" && text != "0" {
		return nil, reply.Invalid(name, "%s, want true or false", field.Quote(text))
	}
	return &on, nil
}

// isOn reports whether such a parameter is on.
func isOn(c *gin.Context, name string) (bool, error) {
	on, err := switchOf(c, name)
	return on != nil && *on, err
}

// receive reads and stores the body of a request; received then returns it.
func receive(c *gin.Context) ([]byte, error) {
	if how := c.GetHeader("Content-Encoding"); how != "" && !strings.EqualFold(how, "identity") {
		return nil, &reply.Error{Status: http.StatusUnsupportedMediaType, Message: fmt.Sprintf("Content-Encoding: %s, want a body that is not compressed", field.Quote(how)), Param: "Content-Encoding"}
	}
	body, err := readAll(c.Request.Body)
	c.Set(gin.BodyBytesKey, body)
	return body, err
}

// take reads the body of a request that is no other's to read, and takes it into its fields.
func take(c *gin.Context, q field.Query) error {
	if _, err := receive(c); err != nil {
		return err
	}
	return readBody(c, q)
}

func received(c *gin.Context) []byte {
	body, _ := c.Get(gin.BodyBytesKey)
	b, _ := body.([]byte)
	return b
}

// errNamed stops the walk of a body once the model's name is found.
var errNamed = errors.New("the model is named")

// modelName returns the model that a body names, or "". Errors in the body are reported
// later, when its fields are read.
func modelName(body []byte) string { return nameIn(body, "model") }

// nameIn returns the text of a member of a body, or "".
func nameIn(body []byte, which string) (name string) {
	r := field.NewReader(body)
	_ = r.Members("an object", func(member string) (err error) {
		if member != which || r.Kind() != '"' {
			_, err = r.Raw()
			return err
		}
		if name, err = r.Text("a name"); err == nil {
			err = errNamed
		}
		return err
	})
	return name
}

func readAll(from io.Reader) ([]byte, error) {
	body, err := io.ReadAll(from)
	var slow interface{ Timeout() bool }
	var large *http.MaxBytesError
	switch {
	case err == nil || errors.As(err, &large):
		return body, err
	case errors.As(err, &slow) && slow.Timeout():
		return nil, reply.Bad("the body did not arrive in time")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, reply.Bad("the body ended early")
	}
	return nil, reply.Bad("the body cannot be read: %v", err) // such as chunks of wrong lengths
}
