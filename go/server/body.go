package server

import (
	"errors"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"
)

// readBody takes the body of a request into its fields.
func readBody(c *gin.Context, q query) error {
	body, err := readAll(c)
	if err != nil {
		return err
	}
	return readFields(body, q.fields())
}

func readAll(c *gin.Context) ([]byte, error) {
	body, err := io.ReadAll(c.Request.Body)
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
