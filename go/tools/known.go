package tools

import (
	"encoding/json"
	"strings"
)

// known are all tools. Their names and parameters are llama-server's.
var known = []Tool{
	{Name: "read_file", Display: "Read file", Definition: define("read_file",
		"Read a text file, or some of its lines.", "path",
		param{"path", "string", "The file."},
		param{"start_line", "integer", "The first line to read, counted from 1 (default: 1)."},
		param{"end_line", "integer", "The last line to read (default: the last of the file)."},
		param{"append_loc", "boolean", "Write the number of each line before it."})},
	{Name: "file_glob_search", Display: "File search", Definition: define("file_glob_search",
		"List the files of a folder and its subfolders that match a pattern. Folders such as .git, node_modules and build are "+
			"listed, but not what is in them. A pattern without / is for the names of files in any folder, one with / for the "+
			"end of their paths.", "path",
		param{"path", "string", "The folder to search in."},
		param{"include", "string", "Which files, such as *.go or src/**/*.go (default: **, all)."},
		param{"exclude", "string", "Which files not."},
		param{"type", "string", "file (the default), dir or all."},
		param{"max_depth", "integer", "How many levels of folders (default: 0, all; 1: the folder's own entries)."},
		param{"limit", "integer", "How many results, 100 at most."})},
	{Name: "grep_search", Display: "Grep search", Definition: define("grep_search",
		"Find the lines of files that match a regular expression (RE2). Folders such as .git, node_modules and build are not "+
			"searched, nor are files that are no text.", "path pattern",
		param{"path", "string", "The file or the folder to search in."},
		param{"pattern", "string", "The regular expression."},
		param{"include", "string", "Which files, such as *.go (default: **, all)."},
		param{"exclude", "string", "Which files not."},
		param{"return_line_numbers", "boolean", "Say the numbers of the lines."},
		param{"literal", "boolean", "The pattern is a text, no regular expression."},
		param{"ignore_case", "boolean", "Upper and lower case are the same."},
		param{"context_lines", "integer", "How many lines before and after each match to show."})},
	{Name: shell, Display: "Execute shell command", Writes: true, Streams: true, Definition: define(shell,
		"Run a shell command, and return what it writes. It has no network, and can change files of the working folder only.",
		"command",
		param{"command", "string", "The command."},
		param{"timeout", "integer", "Its time limit in seconds (default: 10, 60 at most)."},
		param{"max_output_size", "integer", "How many bytes to return (default: 16384, which is the most)."})},
	{Name: "write_file", Display: "Write file", Writes: true, Definition: define("write_file",
		"Write a file, and the folders that it is in. A file that is there is replaced.", "path content",
		param{"path", "string", "The file."},
		param{"content", "string", "What it shall have."})},
	{Name: "edit_file", Display: "Edit file", Writes: true, Definition: defineEdit()},
	{Name: "get_info", Display: "Get Runtime Info", Definition: define("get_info",
		"Say which operating system this is, and which folder is the working folder.", "")},
}

type param struct{ name, kind, about string }

// define returns the definition of a tool; required are names with spaces between them.
func define(name, about, required string, params ...param) json.RawMessage {
	properties := map[string]any{}
	for _, p := range params {
		properties[p.name] = map[string]string{"type": p.kind, "description": p.about}
	}
	return definition(name, about, required, properties)
}

func defineEdit() json.RawMessage {
	text := func(about string) map[string]string { return map[string]string{"type": "string", "description": about} }
	return definition("edit_file", "Replace texts of a file. Each text has to be in the file once; all are looked for before "+
		"any is replaced, and may not overlap.", "path edits", map[string]any{
		"path": text("The file."),
		"edits": map[string]any{"type": "array", "description": "What is replaced.", "items": map[string]any{
			"type": "object", "required": []string{"old_text", "new_text"},
			"properties": map[string]any{"old_text": text("The text, exactly as it is in the file."), "new_text": text("What replaces it.")}}},
	})
}

// definition returns the definition of a tool.
func definition(name, about, required string, properties map[string]any) json.RawMessage {
	parameters := map[string]any{"type": "object", "properties": properties}
	if required != "" {
		parameters["required"] = strings.Fields(required)
	}
	d, err := json.Marshal(map[string]any{"type": "function", "function": map[string]any{
		"name": name, "description": about, "parameters": parameters}})
	if err != nil {
		panic(err) // of texts and maps
	}
	return d
}
