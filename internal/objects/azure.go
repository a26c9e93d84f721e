package objects

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

const deniedAzure = "credentials come from AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or else from " +
	"AZURE_CLIENT_ID and its secret, a workload or managed identity, or `az login`; they need the role Storage Blob Data Reader on the container"

// azure is a container of Azure Blob Storage, by its HTTP interface.
type azure struct {
	client    *http.Client // puts on each request who asks
	base      string       // of the container, without a query
	container string
}

// azureVersion is that of the interface.
const azureVersion = "2021-12-02"

func openAzure(client *http.Client, container string) (store, error) {
	s, err := azureSettings()
	if err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(strings.TrimSuffix(s["BlobEndpoint"], "/"))
	if err != nil || endpoint.Host == "" {
		return nil, errors.New("the endpoint of the storage account is no address: want such as https://ACCOUNT.blob.core.windows.net")
	}
	from := &azureTransport{next: client.Transport, account: s["AccountName"]}
	switch {
	case s["AccountKey"] != "":
		err = from.setKey(s["AccountKey"])
	case s["SharedAccessSignature"] != "":
		from.signature, err = url.ParseQuery(strings.TrimPrefix(s["SharedAccessSignature"], "?"))
	case endpoint.Scheme == "https":
		err = from.setIdentity(client)
	}
	if err != nil {
		return nil, err
	}
	return &azure{&http.Client{Transport: from}, endpoint.String() + "/" + url.PathEscape(container), container}, nil
}

// azureSettings are where blobs are and who asks, by the names that a connection string has for them.
func azureSettings() (map[string]string, error) {
	s := map[string]string{}
	for part := range strings.SplitSeq(os.Getenv("AZURE_STORAGE_CONNECTION_STRING"), ";") {
		if key, value, ok := strings.Cut(strings.TrimSpace(part), "="); ok {
			s[key] = value
		}
	}
	if s["UseDevelopmentStorage"] == "true" {
		return nil, errors.New("AZURE_STORAGE_CONNECTION_STRING: give the emulator's account, key and endpoint, not UseDevelopmentStorage")
	}
	set := func(key string, names ...string) {
		for _, name := range names {
			s[key] = cmp.Or(s[key], os.Getenv(name))
		}
	}
	set("AccountName", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
	set("AccountKey", "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY")
	set("SharedAccessSignature", "AZURE_STORAGE_SAS_TOKEN")
	set("BlobEndpoint", "AZURE_STORAGE_ENDPOINT")
	if s["BlobEndpoint"] == "" {
		if s["AccountName"] == "" {
			return nil, errors.New("no storage account is named: set AZURE_STORAGE_ACCOUNT, or AZURE_STORAGE_CONNECTION_STRING")
		}
		s["BlobEndpoint"] = cmp.Or(s["DefaultEndpointsProtocol"], "https") + "://" + s["AccountName"] + ".blob." + cmp.Or(s["EndpointSuffix"], "core.windows.net")
	}
	return s, nil
}

func (s *azure) where(name string) string {
	if name == "" {
		return "az://" + s.container
	}
	return "az://" + s.container + "/" + name
}

func (s *azure) list(ctx context.Context, prefix string, yield func(string, Object) error) error {
	query := url.Values{"restype": {"container"}, "comp": {"list"}, "prefix": {prefix}}
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"?"+query.Encode(), nil)
		if err != nil {
			return err
		}
		answer, err := ask(s.client, r, s.where(""), deniedAzure)
		if err != nil {
			return noIdentity(err)
		}
		var page struct {
			Blobs struct {
				Blob []struct {
					Name       string
					Properties struct {
						Size int64  `xml:"Content-Length"`
						ETag string `xml:"Etag"`
					}
				}
			}
			NextMarker string
		}
		err = xml.NewDecoder(io.LimitReader(answer.Body, answerMost)).Decode(&page)
		answer.Body.Close() // nothing was written
		if err != nil {
			return &Error{Kind: Down, URL: s.where(""), Err: fmt.Errorf("the listing is cut off or damaged: %w", err)}
		}
		for _, b := range page.Blobs.Blob {
			if b.Properties.Size < 0 {
				return &Error{Kind: Unusable, URL: s.where(""), Err: fmt.Errorf("the listing has no size of %q", b.Name)}
			}
			if err := yield(b.Name, Object{Size: b.Properties.Size, Version: strings.Trim(b.Properties.ETag, `"`)}); err != nil {
				return err
			}
		}
		if page.NextMarker == "" {
			return nil
		}
		query.Set("marker", page.NextMarker)
	}
}

func (s *azure) get(ctx context.Context, name string, o Object, from, to int64) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/"+escapePath(name), nil)
	if err != nil {
		return nil, &Error{Kind: Unusable, URL: o.URL, Err: errors.New("it is no name of a blob")}
	}
	if o.Version != "" {
		r.Header.Set("If-Match", `"`+o.Version+`"`)
	}
	body, _, err := getRange(s.client, r, o, from, to, deniedAzure)
	return body, noIdentity(err)
}

// noIdentity tells an identity that cannot be had from a store that does not answer.
func noIdentity(err error) error {
	var none *identityError
	var e *Error
	if errors.As(err, &none) && errors.As(err, &e) {
		return &Error{Kind: Denied, URL: e.URL, Err: none, hint: deniedAzure}
	}
	return err
}
