package chat

import (
	"fmt"
	"strings"
)

// MaxToolName is the maximum length of the name of a tool.
const MaxToolName = 128

// CheckToolName checks that any format of calls can write the name of a tool. The error says what the name is, and what it
// should be.
func CheckToolName(name string) error {
	ok := name != "" && len(name) <= MaxToolName
	for _, c := range name {
		ok = ok && (strings.ContainsRune("_-.:/", c) || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
	}
	if !ok {
		return fmt.Errorf("the string %.40q, want 1 to %d of the characters a-z A-Z 0-9 _ - . : /", name, MaxToolName)
	}
	return nil
}
