package httpapi

import "strings"

// The server says what is to be set as the flags of the program quern. Programs set options and have no flags: the names of
// options are put in the place of flags in what clients are told, and advice to set what no option is for is left out.
var inOptions = strings.NewReplacer(
	"a server with a larger --ctx-size", "a model that the program opens with a longer context (quern.WithContextLength)",
	"for this API key", "for this caller",
	"this API key has the role user; want a key with the role admin", "this caller is no administrator (httpapi.Caller.Admin)",
	"those of --chat-template", "those of quern.WithChatTemplate",
	"adapters are loaded with --lora NAME=FILE, and", "adapters are loaded by quern.WithAdapter, and",
	", or this one started with --mmproj FILE, its projector", ", or this one opened with its projector (quern.WithProjector)",
	"; start it with --batch-dir", "",
	"; start it with --fine-tuning and --batch-dir", "",
	"; start it with --media-path FOLDER", "",
	"; start it with --media-url public", "",
	"; start it with --lora-dir", "",
	"; start it with --mcp", "",
	"; start it with --tools or --mcp", "",
	"; start it with --ui-mcp-proxy", "",
	"; start it with --pooling mean, cls or last", "",
	"; start it with --slot-save-path", "",
	"; start it with --slots", "",
	"; start it with --web-fetch", "",
	"; start it with --web-search", "",
	", or start the server with --pooling cls, mean or last", "",
	", or start the server with another --pooling", "",
)
