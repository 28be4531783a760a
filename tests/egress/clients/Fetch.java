// SPDX-License-Identifier: Apache-2.0
// Fetch URL: the body on standard output; status 1 and the body for anything but 2xx.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Fetch {
	public static void main(String[] words) throws Exception {
		HttpRequest request = HttpRequest.newBuilder(URI.create(words[0])).build();
		HttpResponse<String> r = HttpClient.newHttpClient().send(
			request, HttpResponse.BodyHandlers.ofString());
		System.out.println(r.body());
		System.exit(r.statusCode() / 100 == 2 ? 0 : 1);
	}
}
