package platform

import (
	"os"
	"path/filepath"
)

// StateFolder returns the folder of what programs of this user keep that is neither a setting nor a cache.
func StateFolder() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if filepath.IsAbs(state) { // the XDG specification ignores relative paths
		return state, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state"), err
}
