package reply

import "strings"

// maxLogged is the maximum length of a logged message, in bytes.
const maxLogged = 300

// Logged returns the message for the log: one line, without quotations, which may be a text of the client's. In an
// error about a model's name, the name stays.
func (e *Error) Logged() string {
	if e.InLog != "" {
		return e.InLog
	}
	var b strings.Builder
	for rest := e.Message; rest != ""; {
		at := strings.IndexAny(rest, "\"`\n")
		if at < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:at])
		mark := rest[at]
		rest = rest[at+1:]
		if mark == '\n' {
			b.WriteByte(' ')
			continue
		}
		end := closing(rest, mark)
		if quoted := rest[:end]; e.Param == "model" && len(quoted) <= 100 && !strings.ContainsAny(quoted, " \\\n") {
			b.WriteString(`"` + quoted + `"`)
		} else {
			b.WriteString(`"…"`)
		}
		rest = rest[min(end+1, len(rest)):]
	}
	text := b.String()
	if len(text) > maxLogged {
		text = strings.ToValidUTF8(text[:maxLogged-3], "") + "…"
	}
	return text
}

// closing returns the end of a quotation that began before text.
func closing(text string, mark byte) int {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == mark:
			return i
		case text[i] == '\\' && mark == '"':
			i++
		}
	}
	return len(text)
}
