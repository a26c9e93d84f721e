package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const deniedHub = "a private or gated data set needs a token that may read it: set HF_TOKEN, or log in with `hf " +
	"auth login`, and accept the data set's terms on its page"

// hubDataset is a data set of the Hugging Face hub at one commit: for a branch, its commit at the first access.
type hubDataset struct {
	client          *http.Client
	endpoint, token string
	name, revision  string // OWNER/NAME, and the requested branch, tag or commit
	rootURL         string // hf://datasets/OWNER/NAME[@REVISION]
}

func openHub(client *http.Client, bucket string) (store, error) {
	name, written, _ := strings.Cut(strings.TrimPrefix(bucket, "datasets/"), "@")
	revision, err := url.PathUnescape(written)
	if err != nil {
		return nil, err
	}
	if revision == "" {
		revision = "main"
	}
	endpoint := strings.TrimSuffix(os.Getenv("HF_ENDPOINT"), "/")
	if endpoint == "" {
		endpoint = "https://huggingface.co"
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" {
		return nil, errors.New("HF_ENDPOINT is no address: want such as https://huggingface.co")
	}
	return &hubDataset{client: client, endpoint: endpoint, token: hubToken(), name: name, revision: revision,
		rootURL: "hf://" + bucket}, nil
}

// hubToken returns the token of the environment, or of the logged-in user; empty for public data sets.
func hubToken() string {
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if token := strings.TrimSpace(os.Getenv(name)); token != "" {
			return token
		}
	}
	file := os.Getenv("HF_TOKEN_PATH")
	if file == "" {
		home := os.Getenv("HF_HOME")
		if home == "" {
			cache := os.Getenv("XDG_CACHE_HOME")
			if user, err := os.UserHomeDir(); cache == "" && err == nil {
				cache = filepath.Join(user, ".cache")
			}
			home = filepath.Join(cache, "huggingface")
		}
		file = filepath.Join(home, "token")
	}
	token, _ := os.ReadFile(file) // the file usually does not exist
	return strings.TrimSpace(string(token))
}

func (h *hubDataset) request(ctx context.Context, address string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err == nil && h.token != "" {
		r.Header.Set("Authorization", "Bearer "+h.token)
	}
	return r, err
}

// commitPattern is the syntax of a commit.
var commitPattern = regexp.MustCompile(`^[0-9a-f]{40}$`)

// resolveCommit returns the commit that is read.
func (h *hubDataset) resolveCommit(ctx context.Context) (string, error) {
	if commitPattern.MatchString(h.revision) {
		return h.revision, nil
	}
	var info struct{ SHA string }
	if _, err := h.getJSON(ctx, h.endpoint+"/api/datasets/"+h.name+"/revision/"+url.PathEscape(h.revision),
		&info); err != nil {
		return "", err
	}
	if !commitPattern.MatchString(info.SHA) {
		return "", &Error{Kind: Invalid, URL: h.rootURL, Err: errors.New("the hub names no commit of this revision")}
	}
	return info.SHA, nil
}

// maxListingPage bounds a page of a listing, in bytes.
const maxListingPage = 64 << 20

// getJSON requests JSON and returns the address of the next page, if one follows.
func (h *hubDataset) getJSON(ctx context.Context, address string, to any) (next string, err error) {
	r, err := h.request(ctx, address)
	if err != nil {
		return "", &Error{Kind: Invalid, URL: h.rootURL, Err: errors.New("the hub names no address of the next page")}
	}
	answer, err := doRequest(h.client, r, h.rootURL, deniedHub)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close() // read only
	if err := readJSON(answer, h.rootURL, to); err != nil {
		return "", err
	}
	return h.nextPage(answer.Header.Get("Link"))
}

// readJSON decodes a response. A truncated one is a temporary error.
func readJSON(answer *http.Response, where string, to any) error {
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxListingPage))
	if err != nil {
		return connectionError(answer.Request.Context(), where, err)
	}
	if err := json.Unmarshal(body, to); err != nil {
		return &Error{Kind: Invalid, URL: where, Err: fmt.Errorf("the answer is no listing: %w", err)}
	}
	return nil
}

// nextPage parses a Link header. The next page must be on the same server, because the request contains the token.
func (h *hubDataset) nextPage(link string) (string, error) {
	for part := range strings.SplitSeq(link, ",") {
		address, rel, _ := strings.Cut(part, ">")
		address = strings.TrimPrefix(strings.TrimSpace(address), "<")
		if !strings.Contains(rel, `rel="next"`) {
			continue
		}
		base, err := url.Parse(h.endpoint)
		var u *url.URL
		if err == nil {
			u, err = base.Parse(address)
		}
		if err != nil || u.Host != base.Host || u.Scheme != base.Scheme {
			return "", &Error{Kind: Invalid, URL: h.rootURL, Err: errors.New("the hub's listing continues on another server")}
		}
		return u.String(), nil
	}
	return "", nil
}

func (h *hubDataset) list(ctx context.Context, prefix string, yield func(string, Object) error) error {
	commit, err := h.resolveCommit(ctx)
	if err != nil {
		return err
	}
	within := ""
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		within = "/" + escapePath(prefix[:i])
	}
	page := h.endpoint + "/api/datasets/" + h.name + "/tree/" + commit + within + "?recursive=true&expand=false"
	for page != "" {
		var entries []struct {
			Type, Path, OID string
			Size            int64
		}
		if page, err = h.getJSON(ctx, page, &entries); err != nil {
			if IsKind(err, NotFound) && within != "" {
				return nil // the folder does not exist, so nothing matches
			}
			return err
		}
		for _, e := range entries {
			if e.Type != "file" || e.Size < 0 || !strings.HasPrefix(e.Path, prefix) {
				continue
			}
			if err := yield(e.Path, Object{Size: e.Size, Version: commit + ":" + e.OID}); err != nil {
				return err
			}
		}
	}
	return nil
}

// escapePath escapes the elements of a path.
func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}

func (h *hubDataset) get(ctx context.Context, name string, o Object, from, to int64) (body rangeBody, err error) {
	commit, _, _ := strings.Cut(o.Version, ":")
	r, err := h.request(ctx, h.endpoint+"/datasets/"+h.name+"/resolve/"+commit+"/"+escapePath(name))
	if err != nil {
		return body, &Error{Kind: Invalid, URL: o.URL, Err: errors.New("it is no name of a file")}
	}
	body, _, err = getRange(h.client, r, o, from, to, deniedHub)
	return body, err
}
