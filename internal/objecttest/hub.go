package objecttest

import (
	"crypto/sha1" //nolint:gosec // as git does
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Commit is the commit of main in each data set of a Hub.
const Commit = "0123456789abcdef0123456789abcdef01234567"

// BranchCommit is the commit of a data set's other revisions, which have the same files.
const BranchCommit = "89abcdef0123456789abcdef0123456789abcdef"

// Hub is a double of the Hugging Face hub's file API: revisions, a tree in pages, and files by a redirect to another
// server.
type Hub struct {
	*httptest.Server
	Files    *Web     // target of the redirects
	Token    string   // token with the right to read; "" permits anonymous reads
	Page     int      // entries per page of a tree
	Branches []string // revisions in addition to main

	mu    sync.Mutex
	paths map[string][]string // by data set
}

// NewHub starts a hub, which stops at the end of the test.
func NewHub(tb testing.TB) *Hub {
	h := &Hub{Files: NewWeb(tb), Page: 1000, paths: map[string][]string{}}
	h.Server = httptest.NewServer(h)
	tb.Cleanup(h.Close)
	return h
}

// Put stores a file of a data set OWNER/NAME.
func (h *Hub) Put(set, path string, data []byte) {
	h.Files.Put("/"+set+"/"+path, data)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paths[set] = append(h.paths[set], path)
	slices.Sort(h.paths[set])
}

// ServeHTTP implements http.Handler.
func (h *Hub) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if h.Token != "" && r.Header.Get("Authorization") != "Bearer "+h.Token {
		http.Error(out, `{"error":"Invalid username or password."}`, http.StatusUnauthorized)
		return
	}
	asked, ok := parseHubPath(r.URL.EscapedPath())
	h.mu.Lock()
	defer h.mu.Unlock()
	if !ok || h.paths[asked.set] == nil {
		http.NotFound(out, r)
		return
	}
	known := asked.revision == Commit || asked.revision == BranchCommit
	switch what := asked.what; {
	case what == "revision" && asked.revision == "main":
		_ = json.NewEncoder(out).Encode(map[string]string{"sha": Commit})
	case what == "revision" && asked.within == "" && slices.Contains(h.Branches, asked.revision):
		_ = json.NewEncoder(out).Encode(map[string]string{"sha": BranchCommit})
	case what == "tree" && known:
		h.tree(out, r, asked.set, asked.within)
	case what == "resolve" && known:
		http.Redirect(out, r, strings.Replace(h.Files.URL, "127.0.0.1", "localhost", 1)+"/"+asked.set+"/"+asked.within,
			http.StatusFound)
	default:
		http.NotFound(out, r)
	}
}

// hubPath is the parsed path of a request to a hub.
type hubPath struct{ set, what, revision, within string }

// parseHubPath parses the paths /api/datasets/OWNER/NAME/(revision|tree)/REVISION/PATH and
// /datasets/OWNER/NAME/resolve/REVISION/PATH.
func parseHubPath(escaped string) (hubPath, bool) {
	path, isAPI := strings.CutPrefix(escaped, "/api/datasets/")
	if !isAPI {
		path, _ = strings.CutPrefix(escaped, "/datasets/")
	}
	parts := strings.SplitN(path, "/", 5) // a revision is one part of a path, with escaped slashes
	for i, part := range parts {
		parts[i], _ = url.PathUnescape(part)
	}
	if len(parts) < 4 || isAPI == (parts[2] == "resolve") {
		return hubPath{}, false
	}
	asked := hubPath{set: parts[0] + "/" + parts[1], what: parts[2], revision: parts[3]}
	if len(parts) == 5 {
		asked.within = parts[4]
	}
	return asked, true
}

// tree responds with a page of the files below a folder.
func (h *Hub) tree(out http.ResponseWriter, r *http.Request, set, folder string) {
	type entry struct {
		Type string `json:"type"`
		OID  string `json:"oid"`
		Size int    `json:"size"`
		Path string `json:"path"`
	}
	var all []entry
	for _, path := range h.paths[set] {
		if folder != "" && !strings.HasPrefix(path, folder+"/") {
			continue
		}
		h.Files.mu.Lock()
		data := h.Files.objects["/"+set+"/"+path]
		h.Files.mu.Unlock()
		sum := sha1.Sum(data)
		all = append(all, entry{"file", hex.EncodeToString(sum[:]), len(data), path})
	}
	if all == nil {
		http.NotFound(out, r)
		return
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	to := min(from+h.Page, len(all))
	if to < len(all) {
		query := r.URL.Query()
		query.Set("cursor", strconv.Itoa(to))
		out.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>; rel="next"`, h.URL, r.URL.Path, query.Encode()))
	}
	_ = json.NewEncoder(out).Encode(all[from:to])
}
