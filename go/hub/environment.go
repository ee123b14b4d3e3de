package hub

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// FromEnvironment returns the Hub of this user: what c leaves open is as the environment says, and else the folder quern
// in the user's cache folder and the token that Hugging Face's own tools have stored.
func FromEnvironment(c Config) (*Hub, error) {
	c.HuggingFace = cmp.Or(c.HuggingFace, os.Getenv("HF_ENDPOINT"), os.Getenv("MODEL_ENDPOINT"))
	c.Ollama = cmp.Or(c.Ollama, os.Getenv("QUERN_OLLAMA_ENDPOINT"))
	if c.Dir = cmp.Or(c.Dir, os.Getenv("QUERN_MODEL_CACHE")); c.Dir == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("no folder for downloaded models: %w; QUERN_MODEL_CACHE names one", err)
		}
		c.Dir = filepath.Join(dir, "quern")
	}
	var err error
	if c.Token == "" {
		if c.Token, err = storedToken(); err != nil {
			return nil, fmt.Errorf("the token for Hugging Face: %w", err)
		}
	}
	return New(c)
}

// maxToken bounds the size of a file with a token.
const maxToken = 4 << 10

// storedToken returns the token for Hugging Face of the environment, or of the file where its own tools keep it; empty if
// there is none.
func storedToken() (string, error) {
	if token := os.Getenv("HF_TOKEN"); token != "" {
		return token, nil
	}
	path := os.Getenv("HF_TOKEN_PATH")
	if path == "" {
		home := os.Getenv("HF_HOME")
		if home == "" {
			dir, err := os.UserCacheDir()
			if err != nil {
				return "", nil // there is no such file either
			}
			home = filepath.Join(dir, "huggingface")
		}
		path = filepath.Join(home, "token")
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxToken))
	return strings.TrimSpace(string(b)), err
}
