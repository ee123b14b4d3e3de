package answer

import (
	"encoding/base64"
	"strings"
)

// sealed begins texts that this server wrote for fields named encrypted_content. They are not secret: they have a name of their
// own because other servers' cannot be read.
const sealed = "quern:"

// Seal returns a text in the form in which clients send it back unread.
func Seal(text string) string { return sealed + base64.StdEncoding.EncodeToString([]byte(text)) }

// Unseal returns the text; false: it is none of this server's.
func Unseal(text string) (string, bool) {
	own, ok := strings.CutPrefix(text, sealed)
	if !ok {
		return "", false
	}
	b, err := base64.StdEncoding.DecodeString(own)
	return string(b), err == nil
}
