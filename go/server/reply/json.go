package reply

import (
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ContentType is the Content-Type of JSON responses.
const ContentType = "application/json; charset=utf-8"

// inJSON are the options for encoding JSON: in deterministic order, with invalid UTF-8
// replaced by U+FFFD.
var inJSON = json.JoinOptions(json.Deterministic(true), jsontext.AllowInvalidUTF8(true))

// Encode returns the JSON of a value, as in responses.
func Encode(v any) ([]byte, error) { return json.Marshal(v, inJSON) }

// JSON sends a whole response while it is encoded.
func JSON(c *gin.Context, status int, v any) {
	b := &answerBody{c: c, status: status}
	if err := json.MarshalWrite(b, v, inJSON); err != nil && !b.begun {
		b.status, b.buf = http.StatusInternalServerError, []byte(`{"error":{"code":500,"message":"internal error","type":"server_error"}}`)
	}
	b.end()
}

// An answerBody is the body of a whole response. A short one is sent with its
// Content-Length, a long one in chunks.
type answerBody struct {
	c      *gin.Context
	status int
	begun  bool
	buf    []byte
}

func (b *answerBody) Write(p []byte) (int, error) {
	b.buf = append(b.buf, p...)
	if len(b.buf) < maxUnsent {
		return len(p), nil
	}
	return len(p), b.flush()
}

func (b *answerBody) flush() error {
	if !b.begun {
		b.begun = true
		b.c.Header("Content-Type", ContentType)
		b.c.Status(b.status)
	}
	_, err := b.c.Writer.Write(b.buf)
	b.buf = b.buf[:0]
	return err
}

func (b *answerBody) end() {
	if !b.begun {
		b.c.Header("Content-Length", strconv.Itoa(len(b.buf)))
	}
	_ = b.flush() // fails only if the client has disconnected
}
