package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/fetch"
	"github.com/quern-llm/quern/go/server/web"
)

// webFlags are what answers may have of the web.
type webFlags struct{ search, api, keyFile, pages string }

func (f *webFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.search, "web-search", "", "`URL` of a search engine, such as http://localhost:8888, that the server asks for clients of /v1/responses and /v1/messages with the tool web_search (default: none); needs an API key if the address is reachable from other machines")
	choiceVar(fs, &f.api, "web-search-api", autoAPI, append([]string{autoAPI}, web.APIs...), "how it is asked, auto by its URL")
	fs.StringVar(&f.keyFile, "web-search-key-file", "", "`FILE` with its key (default: the variable "+webKey+")")
	fs.StringVar(&f.pages, "web-fetch", "off", "which pages the server reads for models of such clients: off, public (any with a public address), or `HOSTS` separated by commas")
}

// autoAPI has the URL tell how an engine is asked.
const autoAPI = "auto"

// webKey is the variable with the engine's key.
const webKey = "QUERN_WEB_SEARCH_KEY"

// open returns what the flags say.
func (f *webFlags) open() (w agent.Web, err error) {
	fetcher, err := fetch.New(f.pages, "")
	if err != nil {
		return w, usagef("--web-fetch: %w", err)
	}
	if f.pages != "off" && f.pages != "" {
		w.Read = web.ReadPages(fetcher).Read
	}
	if f.search == "" {
		if f.keyFile != "" {
			return w, usagef("--web-search-key-file: want --web-search URL beside it")
		}
		return w, nil
	}
	key := strings.TrimSpace(os.Getenv(webKey))
	if f.keyFile != "" {
		if key, err = keyIn(f.keyFile); err != nil {
			return w, usagef("--web-search-key-file: %w", err)
		}
	}
	api := f.api
	if api == autoAPI {
		api = ""
	}
	engine, err := web.Open(f.search, api, key)
	if err != nil {
		return w, usagef("--web-search: %w", err)
	}
	w.Search = engine.Search
	return w, nil
}

// keyIn returns the key that is in a file, alone.
func keyIn(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	const most = 4 << 10
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	key := strings.TrimSpace(string(data))
	switch {
	case err != nil:
	case len(data) > most:
		err = fmt.Errorf("more than %d KiB", most>>10)
	case key == "":
		err = errors.New("empty")
	case strings.ContainsAny(key, "\r\n"):
		err = errors.New("several lines")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w, want a file with the key alone", path, cmp.Or(errors.Unwrap(err), err))
	}
	return key, nil
}
