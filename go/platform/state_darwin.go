package platform

import (
	"os"
	"path/filepath"
)

// StateFolder returns the folder of what programs of this user keep that is neither a setting nor a cache.
func StateFolder() (string, error) {
	home, err := os.UserHomeDir()
	return filepath.Join(home, "Library", "Application Support"), err
}
