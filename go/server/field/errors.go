package field

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/reply"
)

// Wrong is the error that a value is not what was wanted.
func Wrong(v jsontext.Value, want string) error {
	return fmt.Errorf("%s, want %s", Describe(v), want)
}

// At adds the name of the field to an error about its value.
func At(name string, err error) error {
	if api, ok := err.(*reply.Error); ok { // which has a status of its own
		api.Message, api.Param = name+": "+api.Message, name
		return api
	}
	return reply.Invalid(name, "%v", err)
}

// Within adds the position in a value to an error, if there is one.
func Within(where string, err error) error {
	if err == nil {
		return nil
	}
	if api, ok := err.(*reply.Error); ok {
		api.Message = where + ": " + api.Message
		return api
	}
	return fmt.Errorf("%s: %w", where, err)
}

// Describe is a value for an error message: its type, and the value itself if it is
// short.
func Describe(v jsontext.Value) string {
	switch v.Kind() {
	case 'n':
		return "null"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		text, _ := jsontext.AppendUnquote(nil, v)
		return "the string " + Quote(string(text))
	}
	return Clip(string(v))
}

// Quote is text for an error message: in quotes, and truncated if it is long.
func Quote(text string) string { return `"` + Clip(text) + `"` }

// Clip truncates a text that is long.
func Clip(text string) string {
	const most = 40
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
