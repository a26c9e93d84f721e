package objects

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
)

// ProfileSetting is a setting of a profile in AWS's files.
func ProfileSetting(profile, setting string) (string, error) {
	p, err := readProfile(profile)
	return p.settings[setting], err
}

// PutAzure makes a blob, or with an empty name the container, by the requests that this package signs.
func PutAzure(ctx context.Context, container, name string, data []byte) error {
	st, err := openAzure(&http.Client{Transport: http.DefaultTransport}, container)
	if err != nil {
		return err
	}
	a := st.(*azure)
	address := a.base + "?restype=container"
	if name != "" {
		address = a.base + "/" + escapePath(name)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, address, bytes.NewReader(data))
	if err != nil {
		return err
	}
	if name != "" {
		r.Header.Set("X-Ms-Blob-Type", "BlockBlob")
		r.Header.Set("Content-Length", strconv.Itoa(len(data)))
	}
	answer, err := a.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s%s", answer.Status, said(answer))
	}
	return nil
}

// TreatAsPrivate decides which addresses count as those of this machine or its network.
func (s *Stores) TreatAsPrivate(private func(netip.Addr) bool) {
	s.web = webClient(http.DefaultTransport.(*http.Transport).Clone(), private)
}

// IsPrivate is isPrivate.
var IsPrivate = isPrivate
