package openai

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A responseItem is an item of a response's input or output: a message, a call of a tool,
// its result, or reasoning.
type responseItem struct {
	raw jsontext.Value // as it was sent, with an id

	Type      string         `json:"type"`
	ID        string         `json:"id"`
	Role      string         `json:"role"`
	Name      string         `json:"name"`
	Namespace string         `json:"namespace"`
	CallID    string         `json:"call_id"`
	Arguments string         `json:"arguments"`
	Input     string         `json:"input"`
	Content   jsontext.Value `json:"content"`
	Output    jsontext.Value `json:"output"`
	Summary   jsontext.Value `json:"summary"`
	Encrypted string         `json:"encrypted_content"`

	Label      string         `json:"server_label"`
	ApprovalID string         `json:"approval_request_id"`
	Approve    *bool          `json:"approve"`
	Reason     string         `json:"reason"`
	Error      jsontext.Value `json:"error"`
	Action     jsontext.Value `json:"action"`

	parts  []chat.Part // of the content, output or summary
	result string      // of a call of a tool of the server, as the model is told it
}

// responseItems are the input of a response.
type responseItems []responseItem

const wantItems = `a string or an array of items such as {"role": "user", "content": "hello"}`

func (l *responseItems) Take(r *field.Reader) error {
	*l = responseItems{}
	if r.Kind() == '"' {
		s, err := r.Text(wantItems)
		if err != nil {
			return err
		}
		v, err := reply.Encode(map[string]string{"role": "user", "content": s})
		if err != nil {
			return err
		}
		r = field.NewReader(slices.Concat([]byte("["), v, []byte("]")))
	}
	return r.Elements(wantItems, func(i int) error {
		v, err := r.Raw()
		if err != nil {
			return err
		}
		item, err := readItem(v)
		*l = append(*l, item)
		return field.Within(fmt.Sprintf("item %d", i), err)
	})
}

func (l *responseItems) Value() any { return nil }

func (l *responseItems) Schema() field.Schema {
	return field.Schema{"description": wantItems,
		"anyOf": []field.Schema{{"type": "string"}, {"type": "array", "items": field.Schema{"type": "object"}}}}
}

// hostedItems are what OpenAI's own tools leave in a conversation. They say nothing to
// another model.
var hostedItems = []string{
	"file_search_call", "image_generation_call", "code_interpreter_call", "computer_call",
	"computer_call_output",
	"local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call",
	"apply_patch_call_output",
	"tool_search_call", "tool_search_output", "compaction",
}

// readItem reads an item, and gives it an id if it has none.
func readItem(v jsontext.Value) (it responseItem, err error) {
	if v.Kind() != '{' {
		return it, field.Wrong(v, "an object")
	}
	if err := field.Decode(v, &it); err != nil {
		return it, err
	}
	it.raw = slices.Clone(v)
	missing := func(name string) error { return reply.Bad("%s: missing from an item of type %s", name, it.Type) }
	prefix := ""
	switch it.Type {
	case "", "message":
		prefix, it.Type = "msg_", "message"
		if !slices.Contains([]string{"user", "assistant", "system", "developer"}, it.Role) {
			return it, reply.Bad("role: the string %s, want one of user, assistant, system, developer", field.Quote(it.Role))
		}
		if it.parts, err = itemParts(it.Content); err != nil {
			return it, field.Within("content", err)
		}
	case "function_call", "custom_tool_call":
		prefix = "fc_"
		if it.CallID == "" {
			return it, missing("call_id")
		}
		if it.Name == "" {
			return it, missing("name")
		}
	case "function_call_output", "custom_tool_call_output":
		prefix = "fco_"
		if it.CallID == "" {
			return it, missing("call_id")
		}
		if it.parts, err = itemParts(it.Output); err != nil {
			return it, field.Within("output", err)
		}
	case "reasoning":
		prefix = "rs_"
		if it.parts, err = it.thoughts(); err != nil {
			return it, err
		}
	case "item_reference":
		if it.ID == "" {
			return it, missing("id")
		}
	case "mcp_list_tools":
		prefix = "mcpl_"
		if it.Label == "" {
			return it, missing("server_label")
		}
	case "mcp_call", "mcp_approval_request":
		prefix = "mcp_"
		switch {
		case it.Label == "":
			return it, missing("server_label")
		case it.Name == "":
			return it, missing("name")
		case it.Type == "mcp_approval_request" && it.ID == "":
			return it, missing("id")
		}
		if it.result, err = it.called(); err != nil {
			return it, err
		}
	case "web_search_call":
		if err := it.readWebItem(it.Action); err != nil {
			return it, err
		}
	case "mcp_approval_response":
		prefix = "mcpa_"
		switch {
		case it.ApprovalID == "":
			return it, missing("approval_request_id")
		case it.Approve == nil:
			return it, missing("approve")
		}
	default:
		if !slices.Contains(hostedItems, it.Type) {
			return it, reply.Bad("type: the string %s, want message, function_call, function_call_output, custom_tool_call, "+
				"custom_tool_call_output, mcp_approval_response, reasoning or item_reference", field.Quote(it.Type))
		}
	}
	if it.Type == "message" && it.Content.Kind() == '"' { // it is listed with parts that have a type
		before, after := `{"type":"message","content":[{"type":"input_text","text":`, `}]`
		if it.Role == "assistant" {
			before, after = `{"type":"message","content":[{"type":"output_text","text":`, `,"annotations":[]}]`
		}
		it.raw = slices.Concat([]byte(before), it.Content, []byte(after), field.Except(it.raw, "type", "content"))
	}
	if it.ID == "" && prefix != "" {
		it.ID = prefix + answer.NewID()
		it.raw = slices.Concat([]byte(`{"id":"`+it.ID+`","type":"`+it.Type+`"`), field.Except(it.raw, "type", "id"))
	}
	return it, nil
}

// A mediumPart is what parts of input_image, input_file, input_audio and input_video have.
type mediumPart struct {
	ImageURL string   `json:"image_url"`
	FileURL  string   `json:"file_url"`
	FileData string   `json:"file_data"`
	FileID   string   `json:"file_id"`
	Filename string   `json:"filename"`
	Detail   string   `json:"detail"`
	VideoURL videoURL `json:"video_url"`
	FPS      *float32 `json:"fps"`
	Audio    struct {
		Data string `json:"data"`
	} `json:"input_audio"`
}

// A videoURL is a URL, or an object that has it: vendors of models that see videos have either.
type videoURL string

func (u *videoURL) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '{' {
		return json.UnmarshalDecode(d, (*string)(u))
	}
	var of struct {
		URL string `json:"url"`
	}
	err := json.UnmarshalDecode(d, &of)
	*u = videoURL(of.URL)
	return err
}

// part returns the medium of a part of some type.
func (p *mediumPart) part(kind string) (chat.Part, error) {
	m := &chat.Medium{Detail: p.Detail, Name: p.Filename}
	switch {
	case kind == "input_audio" && p.Audio.Data != "":
		m.Source, m.Kind = ask.Base64(p.Audio.Data), chat.Sound
	case kind == "input_audio":
		return chat.Part{}, reply.Bad(`input_audio: missing, want an object such as {"data": "base64 of a file", "format": "wav"}`)
	case kind == "input_video" && p.VideoURL != "":
		m.Source = string(p.VideoURL)
	case kind == "input_file" && p.FileData != "":
		m.Source = p.FileData
	case kind == "input_file" && p.FileURL != "":
		m.Source = p.FileURL
	case kind != "input_file" && kind != "input_video" && p.ImageURL != "":
		m.Source = p.ImageURL
	case p.FileID != "":
		m.Source = ask.Uploaded(p.FileID)
	case kind == "input_file":
		return chat.Part{}, reply.Bad("file_data: missing, want data:image/png;base64,..., or file_url or file_id")
	case kind == "input_video":
		return chat.Part{}, reply.Bad("video_url: missing, want data:video/jpeg;base64,FRAME,FRAME,..., or file_id")
	default:
		return chat.Part{}, reply.Bad("image_url: missing, want data:image/png;base64,..., or file_id")
	}
	switch m.Document = kind == "input_file"; {
	case kind == "input_image", kind == "computer_screenshot":
		m.Kind = chat.Picture
	case kind == "input_video":
		m.Kind = chat.Video
		if rate := p.FPS; rate != nil {
			if m.Rate = *rate; !(m.Rate >= ask.MinRate && m.Rate <= ask.MaxRate) {
				return chat.Part{}, reply.Bad("fps: the number %v, want %v to %v", *rate, ask.MinRate, ask.MaxRate)
			}
		}
	}
	return chat.Part{Medium: m}, nil
}

// itemParts reads a text, or parts.
func itemParts(v jsontext.Value) ([]chat.Part, error) {
	if len(v) == 0 || v.Kind() == 'n' {
		return nil, nil
	}
	r := field.NewReader(v)
	if r.Kind() == '"' {
		s, err := r.Text("a string")
		return chat.Texts(s), err
	}
	var parts []chat.Part
	err := r.Elements("a string or an array of parts", func(i int) error {
		var part struct {
			Type    string  `json:"type"`
			Text    *string `json:"text"`
			Refusal *string `json:"refusal"`
			mediumPart
		}
		err := r.Decode(&part)
		switch {
		case err != nil:
		case part.Type == "refusal" && part.Refusal != nil:
			parts = append(parts, chat.Part{Text: *part.Refusal})
		case part.Type == "input_image", part.Type == "input_file", part.Type == "input_audio",
			part.Type == "input_video", part.Type == "computer_screenshot":
			var p chat.Part
			p, err = part.part(part.Type)
			parts = append(parts, p)
		case !slices.Contains([]string{"input_text", "output_text", "text", "reasoning_text", "summary_text"}, part.Type):
			err = reply.Bad("type: the string %s, want input_text, output_text, input_image, input_file, input_audio or input_video", field.Quote(part.Type))
		case part.Text == nil:
			err = reply.Bad("text: missing, want a string")
		default:
			parts = append(parts, chat.Part{Text: *part.Text})
		}
		return field.Within(fmt.Sprintf("part %d", i), err)
	})
	return parts, err
}

// thoughts returns the texts of an item of reasoning: in full, or else as its summary.
func (it *responseItem) thoughts() ([]chat.Part, error) {
	parts, err := itemParts(it.Content)
	if err != nil {
		return nil, field.Within("content", err)
	}
	if own, ok := answer.Unseal(it.Encrypted); ok && len(parts) == 0 {
		return chat.Texts(own), nil
	}
	if len(parts) > 0 {
		return parts, nil
	}
	parts, err = itemParts(it.Summary)
	return parts, field.Within("summary", err)
}

// called returns what came of a call of an MCP tool.
func (it *responseItem) called() (string, error) {
	if len(it.Output) > 0 && it.Output.Kind() != 'n' {
		text, err := field.NewReader(it.Output).Text("a string")
		return text, field.Within("output", err)
	}
	if it.Error.Kind() == '"' {
		text, err := field.NewReader(it.Error).Text("a string")
		return "error: " + text, field.Within("error", err)
	}
	if len(it.Error) == 0 || it.Error.Kind() == 'n' {
		return "", nil
	}
	var in mcpError
	if err := field.Decode(it.Error, &in); err != nil {
		return "", field.Within("error", err)
	}
	text := in.text()
	if !strings.HasPrefix(text, "error: ") { // which tools begin theirs with
		text = "error: " + text
	}
	return text, nil
}

// add adds the item to a conversation. Those of MCP tools converse adds.
func (it *responseItem) add(t *ask.Transcript) {
	switch it.Type {
	case "message":
		switch it.Role {
		case "assistant":
			t.Say(it.parts...)
		case "developer":
			t.Add("system", it.parts...)
		default:
			t.Add(it.Role, it.parts...)
		}
	case "reasoning":
		var texts []string
		for _, p := range it.parts {
			texts = append(texts, p.Text)
		}
		t.Think(strings.Join(texts, "\n\n"))
	case "function_call":
		t.Call(it.CallID, ask.FlatName(it.Namespace, it.Name), it.Arguments)
	case "custom_tool_call":
		t.Call(it.CallID, ask.FlatName(it.Namespace, it.Name), ask.CustomArguments(it.Input))
	case "function_call_output", "custom_tool_call_output":
		t.Result(it.CallID, it.parts...)
	}
}
