package server

import (
	"errors"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"
)

// readBody takes the body of a request into its fields.
func readBody(c *gin.Context, q query) error { return readFields(received(c), q.fields()) }

// receive reads the body of a request, which received returns from then on.
func receive(c *gin.Context) ([]byte, error) {
	body, err := readAll(c.Request.Body)
	c.Set(gin.BodyBytesKey, body)
	return body, err
}

func received(c *gin.Context) []byte {
	body, _ := c.Get(gin.BodyBytesKey)
	b, _ := body.([]byte)
	return b
}

// errNamed ends the walk of a body when it has said which model it is for.
var errNamed = errors.New("the model is named")

// modelName returns which model a body is for, or nothing. Whatever is wrong with the
// body is found when it is read for its fields.
func modelName(body []byte) (name string) {
	r := newReader(body)
	_ = r.members("an object", func(member string) (err error) {
		if member != "model" || r.kind() != '"' {
			_, err = r.raw()
			return err
		}
		if name, err = r.text("a name"); err == nil {
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
		return nil, bad("the body did not arrive in time")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, bad("the body ended early")
	}
	return nil, bad("the body cannot be read: %v", err) // such as chunks of wrong lengths
}
