package fleet

import (
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/internal/usage"
)

// folder returns a handler that serves the files of a folder on paths without a route,
// and a function that closes it. Like the chat page they need no key: the page itself
// asks for it. Symbolic links cannot leave the folder, and folders are not listed.
func folder(dir, prefix string) (gin.HandlerFunc, func(), error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, usage.Errorf("--path: %w", err)
	}
	all := root.FS()
	return func(c *gin.Context) {
		asked, ok := strings.CutPrefix(c.Request.URL.Path, prefix+"/")
		if !ok || c.FullPath() != "" || c.Request.Method != http.MethodGet && c.Request.Method != http.MethodHead {
			return
		}
		name := path.Clean(asked)
		info, err := fs.Stat(all, name)
		if err == nil && info.IsDir() {
			if name = path.Join(name, "index.html"); asked != "" && !strings.HasSuffix(asked, "/") {
				return // its relative links would break
			}
			info, err = fs.Stat(all, name)
		}
		if err != nil || !info.Mode().IsRegular() {
			return
		}
		f, err := root.Open(name)
		if err != nil {
			return
		}
		defer f.Close()
		c.Header("X-Content-Type-Options", "nosniff")
		http.ServeContent(c.Writer, c.Request, name, info.ModTime(), f)
		c.Abort()
	}, func() { root.Close() }, nil
}
