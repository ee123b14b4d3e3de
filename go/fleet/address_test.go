package fleet

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
)

func TestPage(t *testing.T) {
	open := func(network, address string) net.Addr {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l.Addr()
	}
	socket := open("unix", filepath.Join(t.TempDir(), "q.sock"))
	local, all := open("tcp", "127.0.0.1:0"), open("tcp", ":0")
	port := func(a net.Addr) int { return a.(*net.TCPAddr).Port }
	for _, test := range []struct {
		address Address
		at      []net.Addr
		want    string
	}{
		{Address{}, []net.Addr{socket, local}, fmt.Sprintf("http://127.0.0.1:%d/", port(local))},
		{Address{Prefix: "/llm", CertFile: "x"}, []net.Addr{all}, fmt.Sprintf("https://localhost:%d/llm/", port(all))},
		{Address{}, []net.Addr{local, all}, fmt.Sprintf("http://127.0.0.1:%d/", port(local))},
		{Address{}, []net.Addr{socket}, ""},
	} {
		if got := test.address.page(test.at); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	for _, c := range []struct {
		config Config
		shown  bool
	}{{Config{}, true}, {Config{NoPage: true}, false}, {Config{NoPage: true, PageDir: "site"}, true}} {
		if got := c.config.showsPage(); got != c.shown {
			t.Errorf("%+v: a page is shown: %v", c.config, got)
		}
	}
}
