package answer

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

const formType = "multipart/form-data"

// limits of a form: its parts, and the bytes of one that is no file.
const maxParts, maxPart = 64, 1 << 20

// ReceiveForm reads the body, which is a form, and makes File and Body of it: the contents of the field file, and a
// JSON object of the others, whose values are texts unless the fields of the route say otherwise. Fields with [] at
// the end of their names are lists.
func (req *Request) ReceiveForm() error {
	if req.File != nil {
		return nil
	}
	kind, params, err := mime.ParseMediaType(req.HTTP.GetHeader("Content-Type"))
	if err != nil || kind != formType || params["boundary"] == "" {
		return &reply.Error{Status: http.StatusUnsupportedMediaType, Param: "Content-Type",
			Message: "the body is no form, want " + formType + " with the sound as the field file"}
	}
	if err := req.Receive(); err != nil {
		return err
	}
	form := multipart.NewReader(bytes.NewReader(req.Body), params["boundary"])
	texts, names := map[string][]string{}, []string{}
	for range maxParts {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			if req.File == nil {
				return reply.Invalid("file", "missing, want the contents of a file")
			}
			req.Body = req.json(names, texts)
			return nil
		}
		if err != nil {
			return reply.Bad("the form is damaged or ends early")
		}
		name, most := part.FormName(), int64(maxPart)
		if name == "file" {
			most = int64(len(req.Body))
		}
		data, err := io.ReadAll(io.LimitReader(part, most+1))
		switch {
		case err != nil:
			return reply.Bad("the form is damaged or ends early")
		case int64(len(data)) > most:
			return reply.Invalid(field.Clip(name), "more than %d bytes", most)
		case name == "file" && req.File != nil:
			return reply.Invalid("file", "given twice, want one")
		case name == "file":
			req.File = data
			continue
		case texts[name] == nil:
			names = append(names, name)
		}
		texts[name] = append(texts[name], string(data))
	}
	return reply.Bad("the form has more than %d parts", maxParts)
}

// json returns the fields of a form as an object. A number, or true or false, is one where its field takes that.
func (req *Request) json(names []string, texts map[string][]string) []byte {
	schemas := map[string]field.Schema{}
	for _, f := range req.Route.Body.Defaults(nil).Fields() {
		for _, name := range f.Names {
			schemas[name] = f.To.Schema()
		}
	}
	var b bytes.Buffer
	e := jsontext.NewEncoder(&b, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	_ = e.WriteToken(jsontext.BeginObject) // a buffer does not fail, and what is written is well-formed
	value := func(name, text string) {
		kind, _ := schemas[name]["type"].(string)
		if v := jsontext.Value(text); (kind == "number" || kind == "integer" || kind == "boolean") && v.IsValid() {
			_ = e.WriteValue(v)
			return
		}
		_ = e.WriteToken(jsontext.String(text))
	}
	for _, name := range names {
		_ = e.WriteToken(jsontext.String(name))
		if kind, _ := schemas[name]["type"].(string); kind != "array" {
			value(name, texts[name][len(texts[name])-1])
			continue
		}
		_ = e.WriteToken(jsontext.BeginArray)
		for _, text := range texts[name] {
			value("", text)
		}
		_ = e.WriteToken(jsontext.EndArray)
	}
	_ = e.WriteToken(jsontext.EndObject)
	return b.Bytes()
}
