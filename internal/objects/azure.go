package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

const deniedAzure = "credentials are read from AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_ACCOUNT with " +
	"AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or else from AZURE_CLIENT_ID and its secret, a workload or managed " +
	"identity, or `az login`; they need the role Storage Blob Data Reader on the container"

// azureContainer is a container of Azure Blob Storage.
type azureContainer struct {
	client *container.Client
	name   string
}

func openAzure(client *http.Client, name string) (store, error) {
	c, err := azureClient(client, name)
	return &azureContainer{c, name}, err
}

// azureClient takes the account and its credentials from the environment. Requests are anonymous if the environment
// has no credentials and the endpoint has no TLS.
func azureClient(client *http.Client, name string) (*container.Client, error) {
	core := azcore.ClientOptions{Transport: client, Retry: policy.RetryOptions{MaxRetries: -1}} // Stores retry
	options := &container.ClientOptions{ClientOptions: core}
	if s := os.Getenv("AZURE_STORAGE_CONNECTION_STRING"); s != "" {
		c, err := container.NewClientFromConnectionString(s, name, options)
		if err != nil { // it may contain the connection string
			return nil, errors.New("AZURE_STORAGE_CONNECTION_STRING can not be used: want such as Azure's portal shows, with " +
				"AccountKey or SharedAccessSignature")
		}
		return c, nil
	}
	account := cmp.Or(os.Getenv("AZURE_STORAGE_ACCOUNT"), os.Getenv("AZURE_STORAGE_ACCOUNT_NAME"))
	endpoint := os.Getenv("AZURE_STORAGE_ENDPOINT")
	if endpoint == "" {
		if account == "" {
			return nil, errors.New("no storage account is named: set AZURE_STORAGE_ACCOUNT, or AZURE_STORAGE_CONNECTION_STRING")
		}
		endpoint = "https://" + account + ".blob.core.windows.net"
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return nil, errors.New(
			"the endpoint of the storage account is no address: want such as https://ACCOUNT.blob.core.windows.net")
	}
	u = u.JoinPath(name)
	key := cmp.Or(os.Getenv("AZURE_STORAGE_KEY"), os.Getenv("AZURE_STORAGE_ACCOUNT_KEY"))
	switch signature := os.Getenv("AZURE_STORAGE_SAS_TOKEN"); {
	case key != "":
		shared, err := container.NewSharedKeyCredential(account, key)
		if err != nil {
			return nil, errors.New("the storage account's key is no base64")
		}
		return container.NewClientWithSharedKeyCredential(u.String(), shared, options)
	case signature != "":
		u.RawQuery = strings.TrimPrefix(signature, "?")
	case u.Scheme == "https":
		found, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
			ClientOptions: policy.ClientOptions{Transport: client}})
		if err != nil {
			return nil, err
		}
		return container.NewClient(u.String(), azureIdentity{found}, options)
	}
	return container.NewClientWithNoCredential(u.String(), options)
}

// azureIdentity replaces the errors of an identity, which contain what was sent.
type azureIdentity struct{ azcore.TokenCredential }

// GetToken implements azcore.TokenCredential.
func (i azureIdentity) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	limited, cancel := context.WithTimeout(ctx, headerTimeout)
	defer cancel()
	token, err := i.TokenCredential.GetToken(limited, o)
	if err != nil {
		err = errNoIdentity
	}
	return token, err
}

var errNoIdentity = errors.New("no identity is found that could ask")

func (c *azureContainer) list(ctx context.Context, prefix string, yield func(string, Object) error) error {
	for pages := c.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix}); pages.More(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return c.convertError(ctx, "", err)
		}
		if page.Segment == nil {
			return &Error{Kind: Invalid, URL: c.objectURL(""), Err: errors.New("the answer is no listing of blobs")}
		}
		for _, b := range page.Segment.BlobItems {
			if b.Name == nil || b.Properties == nil || b.Properties.ContentLength == nil || *b.Properties.ContentLength < 0 {
				return &Error{Kind: Invalid, URL: c.objectURL(""),
					Err: errors.New("the listing has a blob without a name or a size")}
			}
			o := Object{Size: *b.Properties.ContentLength}
			if b.Properties.ETag != nil {
				o.Version = strings.Trim(string(*b.Properties.ETag), `"`)
			}
			if err := yield(*b.Name, o); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *azureContainer) get(ctx context.Context, name string, o Object, from, to int64) (body rangeBody, err error) {
	options := &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: from, Count: to - from}}
	if o.Version != "" {
		tag := azcore.ETag(`"` + o.Version + `"`)
		options.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{
			IfMatch: &tag}}
	}
	answer, err := c.client.NewBlobClient(name).DownloadStream(ctx, options)
	if err != nil {
		return body, c.convertError(ctx, name, err)
	}
	if answer.Body == nil { // a response 304, which the library treats as a success
		return body, fmt.Errorf("read %s: the store answers that the object has not changed, and no data", c.objectURL(name))
	}
	var contentRange, tag string
	if answer.ContentRange != nil {
		contentRange = *answer.ContentRange
	}
	if answer.ETag != nil {
		tag = strings.Trim(string(*answer.ETag), `"`)
	}
	if err := checkTag(o, tag); err != nil {
		return body, errors.Join(err, answer.Body.Close())
	}
	return newRangeBody(answer.Body, o, from, to, contentRange, lengthOf(answer.ContentLength))
}

func (c *azureContainer) objectURL(name string) string {
	if name == "" {
		return "az://" + c.name
	}
	return "az://" + c.name + "/" + name
}

// convertError converts an error of the library.
func (c *azureContainer) convertError(ctx context.Context, name string, err error) error {
	var answer *azcore.ResponseError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errNoIdentity):
		return &Error{Kind: Denied, URL: c.objectURL(name), Err: errNoIdentity, hint: deniedAzure}
	case errors.As(err, &answer):
		e := &Error{URL: c.objectURL(name), Err: fmt.Errorf("the store answers %d %s", answer.StatusCode, answer.ErrorCode)}
		setKind(e, answer.StatusCode, deniedAzure)
		if answer.RawResponse != nil {
			e.retryAfter = retryAfter(answer.RawResponse.Header)
		}
		return e
	}
	return connectionError(ctx, c.objectURL(name), err)
}
