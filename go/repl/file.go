package repl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/internal/newfile"
)

// maxFile bounds what is read as a conversation.
const maxFile = 16 << 20

// conversation is the messages so far, and the system message.
type conversation struct {
	system   string
	messages []chat.Message // of the user, the assistant and its tools
}

// savedConversation is the file format: the messages of a /v1/chat/completions
// request. Other fields of such a request are ignored.
type savedConversation struct {
	Messages []chat.Message `json:"messages"`
}

// parse reads a conversation.
func parse(data []byte) (conversation, error) {
	var c conversation
	var saved savedConversation
	if err := json.Unmarshal(data, &saved); err != nil {
		return c, fmt.Errorf(`%v, want {"messages": [{"role": "user", "content": "..."}, ...]}`, err)
	}
	called := false // the message before is a call, or answers one
	for i, m := range saved.Messages {
		calls := m.Role == "assistant" && len(m.ToolCalls) > 0
		empty := m.Content.Null || m.Content.Text == "" && len(m.Content.Parts) == 0 && m.Role != "assistant" && m.Role != "tool"
		switch {
		case empty && !calls:
			return c, fmt.Errorf("messages[%d] has no content", i)
		case i == 0 && (m.Role == "system" || m.Role == "developer"):
			c.system = m.Content.String()
			continue
		case m.Role != "user" && m.Role != "assistant" && m.Role != "tool":
			return c, fmt.Errorf("messages[%d] has the role %q, want user, assistant or tool, or system for the first", i, m.Role)
		case m.Role == "tool" && !called:
			return c, fmt.Errorf("messages[%d] answers a call, want one before it", i)
		}
		called = calls || m.Role == "tool"
		c.messages = append(c.messages, m)
	}
	if len(c.messages) == 0 && c.system == "" {
		return c, errors.New("there are no messages in it")
	}
	return c, nil
}

// format is the inverse of parse.
func (c conversation) format() ([]byte, error) {
	data, err := json.MarshalIndent(savedConversation{c.withSystem(c.messages)}, "", "  ")
	return append(data, '\n'), err
}

// withSystem puts the system message, if there is one, before messages.
func (c conversation) withSystem(messages []chat.Message) []chat.Message {
	all := make([]chat.Message, 0, len(messages)+1)
	if c.system != "" {
		all = append(all, chat.Message{Role: "system", Content: chat.Text(c.system)})
	}
	return append(all, messages...)
}

// load reads a conversation from a file, and reports whether the file holds nothing
// else.
func load(name string) (c conversation, whole bool, err error) {
	info, err := os.Stat(name) // opening a pipe would block until there is a writer
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		return c, false, fmt.Errorf("%s: %w", name, path.Err)
	case !info.Mode().IsRegular():
		return c, false, fmt.Errorf("%s is no file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return c, false, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("more than %d MiB, want a smaller file", maxFile>>20)
	}
	if err == nil {
		c, err = parse(data)
	}
	if err != nil {
		return c, false, fmt.Errorf("%s: %w", name, err)
	}
	var keys map[string]json.RawMessage
	return c, json.Unmarshal(data, &keys) == nil && len(keys) == 1, nil
}

// save writes the conversation to a file, atomically. It does not replace an
// existing file unless over is set.
func (c conversation) save(name string, over bool) error {
	data, err := c.format()
	if err != nil {
		return err
	}
	perm, target := fs.FileMode(0o600), name
	if info, err := os.Stat(name); err == nil {
		perm = info.Mode().Perm()
		if target, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
	}
	_, err = newfile.Write(target, over, perm, uint64(len(data)), bytes.NewReader(data).WriteTo)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already; /save! %s replaces it", name, name)
	} else if err != nil {
		return fmt.Errorf("%s cannot be written: %w", name, err)
	}
	return nil
}
